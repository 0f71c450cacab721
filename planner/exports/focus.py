"""Cost rows of a plan in the columns of FOCUS 1.0, for the tools that read cloud bills.

What is paid up front is a purchase, billed once; its share of the run is effective cost without a
bill. Everything else is billed month by month as the run goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from costdata.own_or_rent import CAPITAL

COLUMNS = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName",
    "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass",
    "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountStatus", "CommitmentDiscountType", "ConsumedQuantity", "ConsumedUnit",
    "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName",
    "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName", "ResourceType",
    "ServiceCategory", "ServiceName", "SkuId", "SkuPriceId", "SubAccountId", "SubAccountName",
    "Tags",
)  # fmt: skip
"""FinOps Open Cost and Usage Specification 1.0 (focus.finops.org), in its order."""

SERVICE = {
    "network": "Networking", "nics": "Networking", "switches": "Networking",
    "links": "Networking", "domain_network": "Networking", "storage": "Storage",
    "head_nodes": "Management and Governance",
    "staff": "Management and Governance", "software": "AI and Machine Learning",
    "carbon_price": "Other", "insurance": "Other",
}  # fmt: skip
"""Service category of a term of the ledgers; the rest is Compute (FOCUS ServiceCategory)."""

ISSUER = "cluster-planner (projected)"
TIME = "%Y-%m-%dT%H:%M:%SZ"  # FOCUS date/time format: ISO 8601, UTC


def focus_rows(
    plan: Mapping[str, Any], study: str, start: datetime, days: float
) -> list[dict[str, Any]]:
    """One row per term and month; purchases first.

    Parameters
    ----------
    plan : the document of `planner explain`
    study : its name, the billing account
    start, days : when the run is charged, in UTC

    Notes
    -----
    EffectiveCost sums to the plan's `usd`, BilledCost to its `capex_usd` and what the run pays
    beside capital. A term's months are in proportion to time, the last is what is left.
    """
    shared = _shared(plan, study)
    end = start + timedelta(days=days)
    rows = []
    for term, usd in plan["ledgers"]["capex_usd"]["terms"].items():
        if usd:
            first_end = _next_month(_month(start))
            money = _money(usd, 0.0)
            when = _when(_month(start), first_end, start, min(end, first_end))
            rows.append({**shared, **_what(term, "Purchase", "One-Time"), **when, **money})
    for term, usd in plan["ledgers"]["usd"]["terms"].items():
        billed = 0.0 if term in CAPITAL else 1.0
        for when, share in _months(start, end, usd) if usd else ():
            money = _money(share * billed, share)
            rows.append({**shared, **_what(term, "Usage", "Usage-Based"), **when, **money})
    return [{name: row.get(name, "") for name in COLUMNS} for row in rows]


def totals(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What the rows sum to."""
    return {name: sum(row[name] for row in rows) for name in ("BilledCost", "EffectiveCost")}


def _shared(plan: Mapping[str, Any], study: str) -> dict[str, Any]:
    tags = {
        name: plan["axes"][name] for name in ("accelerator", "devices") if name in plan["axes"]
    }
    return {
        "BillingAccountId": study,
        "BillingAccountName": study,
        "BillingCurrency": "USD",
        "InvoiceIssuerName": ISSUER,
        "ProviderName": ISSUER,
        "PublisherName": ISSUER,
        "PricingCategory": "Other",
        "RegionId": plan["site"] or "",
        "RegionName": plan["site"] or "",
        "ResourceId": f"{plan['run']}/{plan['plan']}",
        "ResourceName": plan["plan"],
        "ResourceType": "Cluster plan",
        "SubAccountId": plan["run"],
        "SubAccountName": plan["run"],
        "Tags": json.dumps(tags),
    }


def _what(term: str, category: str, frequency: str) -> dict[str, Any]:
    words = term.replace("_", " ")
    return {
        "ChargeCategory": category,
        "ChargeFrequency": frequency,
        "ChargeDescription": words if category == "Usage" else f"{words}, paid up front",
        "ServiceCategory": SERVICE.get(term, "Compute"),
        "ServiceName": words,
        "SkuId": f"{category.lower()}/{term}",
        "SkuPriceId": f"{category.lower()}/{term}",
    }


def _money(billed: float, effective: float) -> dict[str, Any]:
    """Costs of a row; the projection knows no list price apart from the one it takes."""
    cost = billed or effective
    return {
        "BilledCost": billed,
        "EffectiveCost": effective,
        "ListCost": cost,
        "ContractedCost": cost,
        "PricingQuantity": 1,
        "PricingUnit": "Month share",
        "ListUnitPrice": cost,
        "ContractedUnitPrice": cost,
    }


def _months(start: datetime, end: datetime, usd: float) -> Iterator[tuple[dict[str, Any], float]]:
    """Calendar months of a charge with their shares of it."""
    whole_s, left = (end - start).total_seconds(), usd
    at = start
    while at < end:
        month = _month(at)
        until = min(end, _next_month(month))
        share = left if until == end else usd * (until - at).total_seconds() / whole_s
        yield _when(month, _next_month(month), at, until), share
        left, at = left - share, until


def _when(month: datetime, month_end: datetime, start: datetime, end: datetime) -> dict[str, Any]:
    return {
        "BillingPeriodStart": month.strftime(TIME),
        "BillingPeriodEnd": month_end.strftime(TIME),
        "ChargePeriodStart": start.strftime(TIME),
        "ChargePeriodEnd": end.strftime(TIME),
    }


def _month(at: datetime) -> datetime:
    return datetime(at.year, at.month, 1)


def _next_month(month: datetime) -> datetime:
    return datetime(month.year + month.month // 12, month.month % 12 + 1, 1)
