// The list of fields in proto/usage-record.ts, held equal to what follows from it. The columns: test/integration/billing/usage-fields.test.ts.
import { expect, it } from "vitest";
import { readRecord } from "../../../control-plane/billing/record.ts";
import { AdminRequestRecord, RequestRecord } from "../../../control-plane/http/money/usage-log-routes.ts";
import type { UnitCounts } from "../../../proto/money.ts";
import {
  type ReportedUsage,
  shownFields,
  type UsageReport,
  usageFieldList,
  writeUsageRecord,
} from "../../../proto/usage-record.ts";
import { ticketFor } from "../../fakes/data-path.ts";
import { sealedText } from "../../fakes/seals.ts";

const admittedAtMs = 1_800_000_000_000;
/** A different value for each field of the host. */
const reported = new Map<string, unknown>(
  usageFieldList
    .filter(({ from }) => from === "host")
    .map(({ name, type }, i) => {
      if (type === "amount") return [name, BigInt(i + 1)];
      return [name, type === "time" ? admittedAtMs + i : type === "text" ? name : 100 - i];
    }),
)
  .set("source", "engine")
  .set("endReason", "stop");

const group = (of: string) =>
  Object.fromEntries(
    usageFieldList.filter((field) => field.in === of).map(({ name, key = name }) => [key, reported.get(name)]),
  );
const units = group("units") as unknown as UnitCounts;
const report = {
  ...Object.fromEntries(reported),
  usage: { ...group("tokens"), units } as unknown as ReportedUsage,
} as unknown as UsageReport;

it("is what an agent writes of a request, beside its name and its ticket", () => {
  const wire = JSON.parse(writeUsageRecord("r", 1, report, '"sealed"'));
  expect(Object.keys(wire)).toEqual(["requestId", "attempt", ...reported.keys(), "ticket"]);
});

it("leaves out what is null", () => {
  const wire = JSON.parse(
    writeUsageRecord("r", 1, { ...report, endReason: null } as unknown as UsageReport, '"sealed"'),
  );
  expect("endReason" in wire).toBe(false);
});

it("is read as it was written", () => {
  const ticket = ticketFor({ admittedAtMs, units: { asked: units, rates: ["1", "2", "3", "4"] } });
  const wire = JSON.parse(writeUsageRecord("r", 1, report, JSON.stringify(sealedText(ticket))));
  const record = readRecord(wire, ticket);
  expect({ ...record, ...record.units }).toMatchObject(Object.fromEntries(reported));
});

it("is shown by the API with the columns and descriptions of the list", () => {
  const columns = new Set<string>(usageFieldList.map(({ column }) => column));
  for (const { properties } of [RequestRecord, AdminRequestRecord]) {
    const figures = Object.entries(properties)
      .filter(
        ([name, schema]) =>
          columns.has(name) &&
          "type" in schema &&
          schema.type === "integer" &&
          name !== "attempt" &&
          name !== "ended_at",
      )
      .map(([name, schema]) => [name, "description" in schema ? schema.description : ""]);
    expect(figures).toEqual(shownFields.map(({ column, shown }) => [column, shown]));
  }
});

it("shows numbers only, and names no column twice", () => {
  expect(shownFields.filter(({ type }) => !["count", "duration", "integer"].includes(type))).toEqual([]);
  expect(new Set(usageFieldList.map(({ column }) => column)).size).toBe(usageFieldList.length);
});
