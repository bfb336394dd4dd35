import { describe, expect, it } from "vitest";
import { checkScaling, minAt, scalingAfter } from "../../../../control-plane/deployments/scaling.ts";
import { type Schedule, scheduledMin, weekdays } from "../../../../control-plane/deployments/schedules.ts";

const office: Schedule = {
  ...{ days: weekdays.slice(0, 5), from: "08:00", to: "18:00", timeZone: "Europe/Berlin", minInstances: 2 },
};
const at = (iso: string, ...schedules: readonly Schedule[]) => scheduledMin(schedules, Date.parse(iso));

describe("a schedule", () => {
  it("applies on its days from its start until its end by local time", () => {
    // Monday, in winter.
    expect(at("2026-01-05T07:59:59+01:00", office)).toBe(0);
    expect(at("2026-01-05T08:00:00+01:00", office)).toBe(2);
    expect(at("2026-01-05T17:59:59+01:00", office)).toBe(2);
    expect(at("2026-01-05T18:00:00+01:00", office)).toBe(0);
    // Sunday.
    expect(at("2026-01-04T12:00:00+01:00", office)).toBe(0);
    expect(at("2026-07-06T08:00:00+02:00", office)).toBe(2);
    expect(at("2026-07-06T07:00:00Z", { ...office, timeZone: "UTC" })).toBe(0);
  });

  it("crosses midnight on behalf of the day on which it begins", () => {
    const night: Schedule = { ...office, days: ["fri"], from: "22:00", to: "02:00" };
    expect(at("2026-01-09T21:59:00+01:00", night)).toBe(0);
    expect(at("2026-01-09T22:00:00+01:00", night)).toBe(2);
    expect(at("2026-01-10T01:59:00+01:00", night)).toBe(2);
    expect(at("2026-01-10T02:00:00+01:00", night)).toBe(0);
    expect(at("2026-01-10T23:00:00+01:00", night)).toBe(0);
    const sunday: Schedule = { ...night, days: ["sun"] };
    expect(at("2026-01-12T01:00:00+01:00", sunday)).toBe(2);
    const whole: Schedule = { ...office, from: "00:00", to: "24:00" };
    expect(at("2026-01-05T00:00:00+01:00", whole)).toBe(2);
    expect(at("2026-01-05T23:59:00+01:00", whole)).toBe(2);
  });

  it("follows the local clock when summer time begins and ends", () => {
    const early: Schedule = { ...office, days: ["sun"], from: "02:30", to: "04:00" };
    // On 2026-03-29, 02:00 becomes 03:00: the half hour before 03:00 does not exist.
    expect(at("2026-03-29T00:59:00Z", early)).toBe(0);
    expect(at("2026-03-29T01:00:00Z", early)).toBe(2);
    expect(at("2026-03-29T02:00:00Z", early)).toBe(0);
    // On 2026-10-25, 03:00 becomes 02:00: 02:30 exists twice.
    const applied = ["00:29", "00:30", "01:00", "01:30", "02:59", "03:00"].map((time) =>
      at(`2026-10-25T${time}:00Z`, early),
    );
    expect(applied).toEqual([0, 2, 0, 2, 2, 0]);
  });

  it("with the highest minimum counts, up to the maximum, and begins a start earlier", () => {
    const more: Schedule = { ...office, from: "12:00", to: "13:00", minInstances: 9 };
    expect(at("2026-01-05T12:30:00+01:00", office, more)).toBe(9);
    const scale = { minInstances: 1, maxInstances: 4, scaling: { schedules: [office, more] }, startMs: 120_000 };
    expect(minAt(scale, Date.parse("2026-01-05T07:57:59+01:00"))).toBe(1);
    expect(minAt(scale, Date.parse("2026-01-05T07:58:00+01:00"))).toBe(2);
    expect(minAt(scale, Date.parse("2026-01-05T12:30:00+01:00"))).toBe(4);
    expect(minAt({ ...scale, minInstances: 3 }, Date.parse("2026-01-05T17:59:30+01:00"))).toBe(3);
  });

  it("is refused with the reason and the allowed values", () => {
    const refused = (over: Partial<Schedule>) => () => checkScaling({ schedules: [{ ...office, ...over }] }, 4);
    expect(refused({})).not.toThrow();
    expect(refused({ timeZone: "Mars/Olympus" })).toThrow(/schedules\[0\]\.time_zone Mars\/Olympus is unknown.*IANA/);
    expect(refused({ minInstances: 5 })).toThrow(/min_instances must be at most max_instances, which is 4/);
    expect(refused({ to: "08:00" })).toThrow(/must differ/);
    expect(refused({ days: [] })).toThrow(/at least one of mon, tue/);
    expect(() => checkScaling({ schedules: Array(21).fill(office) }, 4)).toThrow(/at most 20/);
  });
});

it("settings of scaling are kept until they are replaced, and removed by null", () => {
  const now = { targetTtftMs: 800, schedules: [office] };
  expect(scalingAfter(now, {})).toEqual(now);
  expect(scalingAfter(now, { targetQueueMs: 50 })).toEqual({ ...now, targetQueueMs: 50 });
  expect(scalingAfter(now, { targetTtftMs: null, schedules: null })).toEqual({});
  expect(scalingAfter(now, { schedules: [] })).toEqual({ targetTtftMs: 800 });
});
