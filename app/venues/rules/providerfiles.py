"""The JSON of providers: price histories of AWS, retail prices of Azure, capacity history of GCP, AWS' advisor.

Each entry is taken or refused by itself. Where a provider tells no price but how often machines are taken back, that
is a *rate*: it is kept beside the prices, and is no survival by itself (`observed.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.domain.inputs import InputError
from app.domain.times import DAY_US, rfc3339
from app.venues.rules.jsontexts import OpenedJson, entries, opened_json, whole
from app.venues.rules.pricefiles import PriceRows, region_of
from app.venues.rules.rates import BAND_CENTRES, RateKind

_PLAIN = json.JSONDecoder()
_AS_TEXT = json.JSONDecoder(parse_float=str, parse_int=str)
_ZONE_OF_GCP = re.compile(r"([a-z]+-[a-z]+\d+)-[a-z]")
_LONGEST_US = 400 * DAY_US
_PRODUCT_OF_GCP = "Linux"
_PRODUCT_OF_SYSTEM = {"Linux": "Linux/UNIX"}


def read_json(chunks: Iterable[str], rows: PriceRows) -> None:
    """Take what a provider's JSON holds, whichever of the known forms it has. Raise InputError if it has none."""
    opened = opened_json(chunks)
    if opened.name == "SpotPriceHistory":
        _read_aws(opened, rows)
    elif opened.name == "Items":
        _read_azure(opened, rows)
    elif opened.name in {"priceHistory", "preemptionHistory"}:
        _read_gcp(whole(opened, _AS_TEXT), rows)
    elif opened.name in {"spot_advisor", "instance_types", "ranges"}:
        _read_advisor(whole(opened, _PLAIN), rows)
    else:
        raise InputError(f"the JSON begins with {opened.name!r}, which is no form that is known here")


def _read_aws(opened: OpenedJson, rows: PriceRows) -> None:
    """Take the entries of AWS' `{"SpotPriceHistory": [...]}`, in any order, one entry in memory at a time."""
    for number, entry in enumerate(entries(opened, _PLAIN), 1):
        if not isinstance(entry, dict):
            rows.refuse_form(number, "an entry is no object")
            continue
        zone = entry.get("AvailabilityZone") or entry.get("AvailabilityZoneId")
        region = region_of(zone) if isinstance(zone, str) else ""
        words = "aws", region, zone, entry.get("InstanceType"), entry.get("ProductDescription")
        rows.take(number, words, entry.get("Timestamp"), entry.get("SpotPrice"), "USD")


def _read_azure(opened: OpenedJson, rows: PriceRows) -> None:
    """Take the spot prices of Azure's `{"Items": [...]}`; other prices are counted and left out.

    Azure's prices are of a region, so the region stands for the zone.
    """
    for number, entry in enumerate(entries(opened, _AS_TEXT), 1):
        if not isinstance(entry, dict):
            rows.refuse_form(number, "an entry is no object")
        elif not _is_spot_of_azure(entry):
            rows.leave_out()
        else:
            region = entry.get("armRegionName")
            product = "Windows" if "Windows" in str(entry.get("productName")) else "Linux"
            words = "azure", region, region, entry.get("armSkuName"), product
            price = entry.get("retailPrice", entry.get("unitPrice"))
            rows.take(number, words, entry.get("effectiveStartDate"), price, entry.get("currencyCode"))


def _is_spot_of_azure(entry: Mapping[str, Any]) -> bool:
    """Tell a price of an hour of a spot machine; *Low Priority* is an older product, and no spot machine."""
    sku, unit, kind = entry.get("skuName"), entry.get("unitOfMeasure"), entry.get("type", "Consumption")
    return isinstance(sku, str) and sku.endswith(" Spot") and unit == "1 Hour" and kind == "Consumption"


def _read_gcp(body: Mapping[str, Any], rows: PriceRows) -> None:
    """Take one answer of GCP's `advice.capacityHistory`: prices by interval, and the share that was preempted."""
    zone = str(body.get("location", "")).rsplit("/", 1)[-1]
    found = _ZONE_OF_GCP.fullmatch(zone)
    words = "gcp", found[1] if found else zone, zone, body.get("machineType"), _PRODUCT_OF_GCP
    for number, record in enumerate(_records(body, "priceHistory"), 1):
        _take_interval(number, record, words, rows)
    for number, record in enumerate(_records(body, "preemptionHistory"), 1):
        interval = record.get("interval") if isinstance(record, dict) else None
        end = interval.get("endTime") if isinstance(interval, dict) else None
        share = record.get("preemptionRate") if isinstance(record, dict) else None
        rows.take_rate(number, words, end, RateKind.OF_STOPS, share)


def _records(body: Mapping[str, Any], name: str) -> list[Any]:
    records = body.get(name, [])
    if not isinstance(records, list):
        raise InputError(f"{name} is no list")
    return records


def _take_interval(number: int, record: object, words: tuple[Any, ...], rows: PriceRows) -> None:
    """Take a price that held for an interval: at its begin, daily after it, and at its end."""
    interval = record.get("interval") if isinstance(record, dict) else None
    price = record.get("listPrice") if isinstance(record, dict) else None
    if not isinstance(interval, dict) or not isinstance(price, dict):
        rows.refuse_form(number, "a record of priceHistory has an interval and a listPrice")
        return
    nanos = str(price.get("nanos", 0))
    text = f"{price.get('units', 0)}.{nanos.zfill(9)}" if nanos.isdecimal() else nanos
    begin_us, end_us = (rows.time_us(interval.get(name)) for name in ("startTime", "endTime"))
    times = [interval.get("startTime")]
    if begin_us is not None and end_us is not None and begin_us < end_us <= begin_us + _LONGEST_US:
        times += [rfc3339(at_us) for at_us in range(begin_us + DAY_US, end_us, DAY_US)]
        times.append(interval["endTime"])
    for at in times:
        rows.take(number, words, at, text, price.get("currencyCode"))


def _read_advisor(body: Mapping[str, Any], rows: PriceRows) -> None:
    """Take AWS' advisor, `{"spot_advisor": {region: {system: {type: {"r": band}}}}}`: of a region, without a time.

    A band is the share of machines that were taken back within a month; its time is that of the reading.
    """
    advice, number = body.get("spot_advisor"), 0
    if not isinstance(advice, dict):
        raise InputError("spot_advisor is no object")
    for region, systems in advice.items():
        for system, types in systems.items() if isinstance(systems, dict) else ():
            for name, told in types.items() if isinstance(types, dict) else ():
                number += 1
                band = told.get("r") if isinstance(told, dict) else None
                is_band = type(band) is int and 0 <= band < len(BAND_CENTRES)
                share = str(BAND_CENTRES[band]) if is_band and band is not None else None
                words = "aws", region, region, name, _PRODUCT_OF_SYSTEM.get(system, system)
                rows.take_rate(number, words, rfc3339(rows.now_us), RateKind.OF_A_MONTH, share)
