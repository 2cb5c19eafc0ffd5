"""Conversions between units, by factors to one base unit per quantity. Exchange rates are frozen at a stated day."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from toolcrib.demo.source import Refused, Source, reads

_LENGTH = {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0, "in": 0.0254, "ft": 0.3048, "yd": 0.9144, "mi": 1609.344}
_MASS = {"mg": 1e-6, "g": 0.001, "kg": 1.0, "t": 1000.0, "oz": 0.028349523125, "lb": 0.45359237, "st": 6.35029318}
_VOLUME = {"ml": 0.001, "cl": 0.01, "l": 1.0, "m3": 1000.0, "tsp": 0.00492892159375, "tbsp": 0.01478676478125} | {
    "cup": 0.2365882365,
    "pt": 0.473176473,
    "gal": 3.785411784,
    "fl_oz": 0.0295735295625,
}
_AREA = {"cm2": 0.0001, "m2": 1.0, "ha": 10_000.0, "km2": 1e6, "ft2": 0.09290304, "acre": 4046.8564224}
_SPEED = {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704, "kn": 0.514444}
_PRESSURE = {"Pa": 1.0, "kPa": 1000.0, "bar": 100_000.0, "psi": 6894.757293168, "atm": 101_325.0, "mmHg": 133.322387415}
_ENERGY = {"J": 1.0, "kJ": 1000.0, "kWh": 3.6e6, "cal": 4.184, "kcal": 4184.0, "BTU": 1055.05585262}
_DATA = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_QUANTITIES = {
    "length": _LENGTH,
    "mass": _MASS,
    "volume": _VOLUME,
    "area": _AREA,
    "speed": _SPEED,
    "pressure": _PRESSURE,
    "energy": _ENERGY,
    "data": _DATA,
}
_PER_EURO = {"EUR": 1.0, "USD": 1.08, "GBP": 0.85, "CHF": 0.95, "JPY": 163.0, "SEK": 11.4, "PLN": 4.3, "INR": 90.5}
_RATES_OF = "2026-10-30"

Length = Literal["mm", "cm", "m", "km", "in", "ft", "yd", "mi"]
Mass = Literal["mg", "g", "kg", "t", "oz", "lb", "st"]
Volume = Literal["ml", "cl", "l", "m3", "tsp", "tbsp", "cup", "pt", "gal", "fl_oz"]
Area = Literal["cm2", "m2", "ha", "km2", "ft2", "acre"]
Speed = Literal["m/s", "km/h", "mph", "kn"]
Pressure = Literal["Pa", "kPa", "bar", "psi", "atm", "mmHg"]
Energy = Literal["J", "kJ", "kWh", "cal", "kcal", "BTU"]
Data = Literal["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB"]


class Units(Source):
    """The `units` source."""

    label = "units"
    about = "Unit and currency conversion, offline."

    @reads
    def list_units(self) -> dict[str, list[str]]:
        """Every supported unit symbol, by quantity."""
        return {name: list(factors) for name, factors in _QUANTITIES.items()}

    @reads
    def convert_length(self, value: float, from_unit: Length, to_unit: Length) -> float:
        """Convert distances: millimetres, inches, feet, miles, kilometres and so on."""
        return _convert(_LENGTH, value, from_unit, to_unit)

    @reads
    def convert_mass(self, value: float, from_unit: Mass, to_unit: Mass) -> float:
        """Convert weights, e.g. pounds to kilograms."""
        return _convert(_MASS, value, from_unit, to_unit)

    @reads
    def convert_volume(self, value: float, from_unit: Volume, to_unit: Volume) -> float:
        """Litres, gallons, cups, spoons. US measures."""
        return _convert(_VOLUME, value, from_unit, to_unit)

    @reads
    def convert_area(self, value: float, from_unit: Area, to_unit: Area) -> float:
        """Convert between square metres, square feet, hectares and acres."""
        return _convert(_AREA, value, from_unit, to_unit)

    @reads
    def convert_speed(self, value: float, from_unit: Speed, to_unit: Speed) -> float:
        """km/h, mph, knots, m/s"""
        return _convert(_SPEED, value, from_unit, to_unit)

    @reads
    def convert_pressure(self, value: float, from_unit: Pressure, to_unit: Pressure) -> float:
        """Convert pressure values such as bar, psi and atmospheres."""
        return _convert(_PRESSURE, value, from_unit, to_unit)

    @reads
    def convert_energy(self, value: float, from_unit: Energy, to_unit: Energy) -> float:
        """Joules, calories, kilowatt hours, BTU."""
        return _convert(_ENERGY, value, from_unit, to_unit)

    @reads
    def convert_data_size(self, value: float, from_unit: Data, to_unit: Data) -> float:
        """Bytes, megabytes, gibibytes: decimal and binary storage units."""
        return _convert(_DATA, value, from_unit, to_unit)

    @reads
    def convert_temperature(
        self,
        value: float,
        from_unit: Literal["celsius", "fahrenheit", "kelvin"],
        to_unit: Literal["celsius", "fahrenheit", "kelvin"],
    ) -> float:
        """Convert a temperature between Celsius, Fahrenheit and Kelvin."""
        celsius = {"celsius": value, "fahrenheit": (value - 32) / 1.8, "kelvin": value - 273.15}[from_unit]
        if celsius < -273.15:
            raise Refused("Nothing is colder than absolute zero.")
        result = {"celsius": celsius, "fahrenheit": celsius * 1.8 + 32, "kelvin": celsius + 273.15}[to_unit]
        return round(result, 6)

    @reads
    def convert_currency(
        self,
        amount: Annotated[float, Meta(ge=0)],
        from_currency: Annotated[str, "ISO 4217 code, e.g. 'USD'", Meta(min_length=3, max_length=3)],
        to_currency: Annotated[str, Meta(min_length=3, max_length=3)],
    ) -> dict[str, object]:
        """Exchange an amount of money into another currency at a fixed reference rate (not live)."""
        if unknown := {from_currency, to_currency} - _PER_EURO.keys():
            raise Refused(f"No rate for {', '.join(sorted(unknown))}. Known: {', '.join(_PER_EURO)}.")
        result = amount / _PER_EURO[from_currency] * _PER_EURO[to_currency]
        return {"amount": round(result, 2), "currency": to_currency, "rates_of": _RATES_OF}

    @reads
    def list_exchange_rates(self) -> dict[str, float]:
        """Reference rates: how much one euro is worth in each currency."""
        return dict(_PER_EURO)


def _convert(factors: Mapping[str, float], value: float, from_unit: str, to_unit: str) -> float:
    return float(f"{value * factors[from_unit] / factors[to_unit]:.12g}")
