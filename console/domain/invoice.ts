// One invoice: its number for people, quantities with their unit, and the lines as CSV.

import type { Responses } from "../../proto/gen/responses.ts";
import { csvOf } from "./csv.ts";

export type Invoice = Responses["GET /payment/invoices/{invoice_id}"];
type Line = Invoice["lines"][number];

/** Whole cents as `$1,234.50`. */
export function usdOfWholeCents(cents: number): string {
  const text = (Math.abs(cents) / 100).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return `${cents < 0 ? "-" : ""}$${text}`;
}

/** `2026.01` as `January 2026`. */
export function monthText(period: string): string {
  const [year = "", month = ""] = period.split(".");
  return new Date(Date.UTC(Number(year), Number(month) - 1, 1)).toLocaleDateString("en-US", {
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  });
}

/** `2026-01-02` of Unix seconds, UTC. */
export const dayText = (at: number): string => new Date(at * 1000).toISOString().slice(0, 10);

/** Lines of a name and an address, without empty ones. */
export const linesOf = (...parts: readonly string[]): readonly string[] =>
  parts.flatMap((part) => part.split("\n")).filter((line) => line.trim() !== "");

const dollars = (cents: number): string => (cents / 100).toFixed(2);

export const invoiceCsv = (invoice: Invoice): string =>
  csvOf<Line>(invoice.lines, [
    { name: "invoice", value: () => invoice.id },
    { name: "period", value: () => invoice.period },
    { name: "model", value: (line) => line.model },
    { name: "task", value: (line) => line.task },
    { name: "priced_by", value: (line) => line.pricing_type },
    { name: "units", value: (line) => line.units },
    { name: "discount", value: (line) => line.discount },
    { name: "usd", value: (line) => dollars(line.rounded_amount) },
    { name: "usd_exact", value: (line) => (line.amount / 100).toFixed(9) },
  ]);
