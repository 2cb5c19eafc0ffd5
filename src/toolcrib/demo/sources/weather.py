"""Weather without a network: every figure follows from the city, the day and a checksum, so the same question always
has the same answer."""

import math
import zlib
from datetime import date, timedelta
from typing import Annotated, Literal

from msgspec import Meta

from toolcrib.demo.source import Refused, Source, reads

_CITIES = {
    "amsterdam": (52.4, 4.9),
    "berlin": (52.5, 13.4),
    "cape town": (-33.9, 18.4),
    "lisbon": (38.7, -9.1),
    "london": (51.5, -0.1),
    "nairobi": (-1.3, 36.8),
    "new york": (40.7, -74.0),
    "oslo": (59.9, 10.8),
    "paris": (48.9, 2.4),
    "san francisco": (37.8, -122.4),
    "sydney": (-33.9, 151.2),
    "tokyo": (35.7, 139.7),
}
_SKIES = ("clear", "partly cloudy", "overcast", "light rain", "rain", "thunderstorm")

City = Annotated[str, "City name, e.g. 'Berlin'"]
Figures = dict[str, object]


class Weather(Source):
    """The `weather` source."""

    label = "weather"
    about = "Weather for a dozen cities, computed offline: plausible, repeatable, not real."

    @reads
    def list_cities(self) -> list[str]:
        """Cities for which data is available."""
        return [city.title() for city in _CITIES]

    @reads
    def get_current_conditions(self, city: City, units: Literal["metric", "imperial"] = "metric") -> Figures:
        """Get the current weather for a city: temperature, sky, humidity and wind. For the coming days use
        get_forecast, for a past day get_history."""
        figures = _day(_place(city), self.today)
        return figures if units == "metric" else _imperial(figures)

    @reads
    def get_forecast(self, city: City, days: Annotated[int, Meta(ge=1, le=14)] = 3) -> list[Figures]:
        """Daily weather forecast for up to two weeks: will it rain, how warm will it get."""
        place = _place(city)
        return [_day(place, self.today + timedelta(days=ahead)) for ahead in range(1, days + 1)]

    @reads
    def get_hourly_forecast(self, city: City, day: date | None = None) -> list[Figures]:
        """Temperature and chance of rain for each hour of a day (default: today)."""
        place, when = _place(city), day or self.today
        middle = _temperature(place, when)
        return [
            {
                "hour": f"{hour:02d}:00",
                "temperature_c": round(middle + 4 * math.sin((hour - 9) / 24 * 2 * math.pi), 1),
                "rain_percent": _draw(place, when, f"rain{hour}", 100),
            }
            for hour in range(24)
        ]

    @reads
    def get_history(self, city: City, day: date) -> Figures:
        """Observed weather on a past date."""
        if day >= self.today:
            raise Refused(f"{day} is not past; use get_forecast.")
        return _day(_place(city), day)

    @reads
    def get_weather_alerts(self, city: City) -> list[Figures]:
        """Active severe weather warnings (storm, heat, frost, flood) for a city. An empty list means no warning."""
        figures = _day(_place(city), self.today)
        high, low, wind = (float(str(figures[key])) for key in ("high_c", "low_c", "wind_kmh"))
        rules = (("heat", high >= 32), ("frost", low <= 0), ("storm", wind >= 50))
        return [{"city": city, "kind": kind, "level": "yellow"} for kind, is_due in rules if is_due]

    @reads
    def get_air_quality(self, city: City) -> Figures:
        """Air pollution: AQI, PM2.5 and ozone."""
        place = _place(city)
        index = 15 + _draw(place, self.today, "air", 110)
        grade = "good" if index <= 50 else "moderate" if index <= 100 else "unhealthy for sensitive groups"
        return {"aqi": index, "grade": grade, "pm25": round(index * 0.24, 1), "ozone": round(index * 0.9, 1)}

    @reads
    def get_sun_times(self, city: City, day: date | None = None) -> dict[str, str]:
        """Sunrise and sunset in local solar time, and the length of the day."""
        when = day or self.today
        tilt = math.radians(-23.44 * math.cos(2 * math.pi * (when.timetuple().tm_yday + 10) / 365.25))
        latitude = math.radians(_CITIES[_place(city)][0])
        half_h = math.degrees(math.acos(max(-1.0, min(1.0, -math.tan(latitude) * math.tan(tilt))))) / 15
        return {"sunrise": _clock(12 - half_h), "sunset": _clock(12 + half_h), "day_length": _clock(2 * half_h)}

    @reads
    def compare_weather(self, cities: Annotated[list[str], Meta(min_length=2, max_length=6)]) -> list[Figures]:
        """Side-by-side conditions of several cities, warmest first."""
        rows = [{"city": city, **_day(_place(city), self.today)} for city in cities]
        return sorted(rows, key=lambda row: -float(str(row["high_c"])))


def _place(city: str) -> str:
    name = city.strip().lower().split(",")[0]
    if name not in _CITIES:
        raise Refused(f"No data for {city!r}. Known cities: {', '.join(c.title() for c in _CITIES)}.")
    return name


def _draw(place: str, day: date, what: str, below: int) -> int:
    return zlib.crc32(f"{place} {day} {what}".encode()) % below


def _temperature(place: str, day: date) -> float:
    """Mean temperature: by latitude and season, give or take."""
    latitude = _CITIES[place][0]
    season = math.cos(2 * math.pi * (day.timetuple().tm_yday - 200) / 365.25) * math.copysign(1, latitude)
    return 28 - abs(latitude) * 0.35 + season * abs(latitude) * 0.2 + _draw(place, day, "warm", 70) / 10 - 3.5


def _day(place: str, day: date) -> Figures:
    middle, wet = _temperature(place, day), _draw(place, day, "sky", len(_SKIES))
    return {
        "date": day,
        "sky": _SKIES[wet],
        "high_c": round(middle + 4, 1),
        "low_c": round(middle - 4, 1),
        "humidity_percent": 40 + wet * 9 + _draw(place, day, "damp", 8),
        "wind_kmh": 3 + _draw(place, day, "wind", 55),
        "rain_mm": max(0, wet - 2) * (1 + _draw(place, day, "mm", 6)),
    }


def _imperial(figures: Figures) -> Figures:
    high, low, wind = (float(str(figures[key])) for key in ("high_c", "low_c", "wind_kmh"))
    kept = {key: figures[key] for key in ("date", "sky", "humidity_percent")}
    return {
        **kept,
        "high_f": round(high * 1.8 + 32, 1),
        "low_f": round(low * 1.8 + 32, 1),
        "wind_mph": round(wind / 1.609, 1),
    }


def _clock(hours: float) -> str:
    minutes = round(hours * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
