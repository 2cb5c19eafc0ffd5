"""Arithmetic, statistics and money mathematics: pure functions with bounds on what they take."""

import ast
import math
import random
import statistics
from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import Meta

from toolcrib.demo.source import Refused, Source, reads

Numbers = Annotated[list[float], Meta(min_length=1, max_length=10_000)]

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "log": math.log,
    "log10": math.log10,
    "exp": math.exp,
    "abs": abs,
    "round": round,
}


class Math(Source):
    """The `math` source."""

    label = "math"
    about = "Calculator, statistics and number tools."

    @reads
    def calculate(self, expression: Annotated[str, "e.g. '2 * (3 + 4) ** 2'", Meta(max_length=500)]) -> float:
        """Evaluate an arithmetic expression. Supports + - * / // % **, parentheses, pi, e and the functions sqrt, sin,
        cos, tan, log, log10, exp, abs and round."""
        try:
            value = float(_value(ast.parse(expression.replace("^", "**"), mode="eval").body))
        except (SyntaxError, ArithmeticError, ValueError, RecursionError, MemoryError) as error:
            raise Refused(f"Cannot calculate {expression!r}: {error}") from error
        if not math.isfinite(value):
            raise Refused(f"{expression!r} is beyond what can be written as a number.")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value

    @reads
    def describe_numbers(self, numbers: Numbers) -> dict[str, float]:
        """Descriptive statistics: mean, median, standard deviation, minimum, maximum, sum."""
        spread = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
        return {
            "count": len(numbers),
            "sum": math.fsum(numbers),
            "mean": statistics.fmean(numbers),
            "median": statistics.median(numbers),
            "stdev": spread,
            "min": min(numbers),
            "max": max(numbers),
        }

    @reads
    def percentage(
        self, operation: Literal["of", "change", "share"], a: float, b: float
    ) -> Annotated[float, "a % of b; change from a to b; share of a in b"]:
        """Percentages. 'of': a percent of b. 'change': by how many percent b differs from a. 'share': a as percent
        of b."""
        if (operation == "change" and a == 0) or (operation == "share" and b == 0):
            raise Refused("There is no percentage of nothing.")
        return a / 100 * b if operation == "of" else (b - a) / a * 100 if operation == "change" else a / b * 100

    @reads
    def linear_regression(self, x: Numbers, y: Numbers) -> dict[str, float]:
        """Least-squares line through points; returns slope, intercept and r squared."""
        try:
            slope, intercept = statistics.linear_regression(x, y)
            return {"slope": slope, "intercept": intercept, "r_squared": statistics.correlation(x, y) ** 2}
        except statistics.StatisticsError as error:
            raise Refused(str(error)) from error

    @reads
    def solve_quadratic(self, a: float, b: float, c: float) -> list[float]:
        """Real roots of ax² + bx + c = 0."""
        if a == 0:
            return [-c / b] if b else []
        inside = b * b - 4 * a * c
        return [] if inside < 0 else sorted({(-b + sign * math.sqrt(inside)) / (2 * a) for sign in (1, -1)})

    @reads
    def factorize(self, number: Annotated[int, Meta(ge=2, le=10**12)]) -> list[int]:
        """Prime factors of an integer. A single factor means the number is prime."""
        factors: list[int] = []
        divisor = 2
        while divisor * divisor <= number:
            while number % divisor == 0:
                factors.append(divisor)
                number //= divisor
            divisor += 1
        return [*factors, number] if number > 1 else factors

    @reads
    def gcd_lcm(self, numbers: Annotated[list[int], Meta(min_length=2, max_length=100)]) -> dict[str, int]:
        """Greatest common divisor and least common multiple."""
        return {"gcd": math.gcd(*numbers), "lcm": math.lcm(*numbers)}

    @reads
    def combinations(
        self, n: Annotated[int, Meta(ge=0, le=1000)], k: Annotated[int, Meta(ge=0, le=1000)], ordered: bool = False
    ) -> str:
        """In how many ways can k of n things be chosen? Set ordered for permutations."""
        return str(math.perm(n, k) if ordered else math.comb(n, k))

    @reads
    def convert_base(
        self,
        number: Annotated[str, "Digits in the source base", Meta(max_length=200)],
        from_base: Annotated[int, Meta(ge=2, le=36)] = 10,
        to_base: Annotated[int, Meta(ge=2, le=36)] = 2,
    ) -> str:
        """Binary, octal, decimal, hexadecimal: rewrite an integer in another number system."""
        try:
            value = int(number, from_base)
        except ValueError as error:
            raise Refused(f"{number!r} is no number in base {from_base}.") from error
        digits = ""
        rest = abs(value)
        while rest or not digits:
            rest, digit = divmod(rest, to_base)
            digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
        return f"-{digits}" if value < 0 else digits

    @reads
    def random_numbers(
        self,
        count: Annotated[int, Meta(ge=1, le=1000)] = 1,
        minimum: int = 1,
        maximum: int = 100,
        seed: Annotated[int, "The same seed gives the same numbers"] = 0,
    ) -> list[int]:
        """Pseudo-random integers, e.g. for dice, a draw or test data. Repeatable."""
        if minimum > maximum:
            raise Refused("minimum is above maximum.")
        draw = random.Random(seed)  # noqa: S311
        return [draw.randint(minimum, maximum) for _ in range(count)]

    @reads
    def loan_payment(
        self,
        principal: Annotated[float, "Amount borrowed", Meta(gt=0)],
        annual_rate_percent: Annotated[float, Meta(ge=0, le=100)],
        years: Annotated[float, Meta(gt=0, le=50)],
    ) -> dict[str, float]:
        """Monthly instalment, total interest and total cost of an annuity loan or mortgage."""
        months, rate = max(1, round(years * 12)), annual_rate_percent / 1200
        monthly = principal / months if rate == 0 else principal * rate / (1 - (1 + rate) ** -months)
        total = monthly * months
        return {"monthly": round(monthly, 2), "interest": round(total - principal, 2), "total": round(total, 2)}

    @reads
    def compound_interest(
        self,
        principal: Annotated[float, Meta(ge=0)],
        annual_rate_percent: Annotated[float, Meta(ge=-50, le=100)],
        years: Annotated[int, Meta(ge=1, le=100)],
        monthly_deposit: Annotated[float, Meta(ge=0)] = 0,
    ) -> float:
        """Future value of savings, with optional regular deposits, compounded monthly."""
        balance = principal
        for _ in range(years * 12):
            balance = balance * (1 + annual_rate_percent / 1200) + monthly_deposit
        return round(balance, 2)


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id="pi" | "e" as name):
            return math.pi if name == "pi" else math.e
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return math.pow(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(inner))
        case _:
            raise ValueError("only numbers, operators and the listed functions are understood")
