import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { type Deadline, Deadlines } from "../../../proto/deadlines.ts";

class Entry implements Deadline {
  calls = 0;
  dueMs: number;
  readonly act: (entry: Entry, nowMs: number) => void;
  constructor(dueMs: number, act: (entry: Entry, nowMs: number) => void = () => {}) {
    this.dueMs = dueMs;
    this.act = act;
  }
  due(nowMs: number): void {
    this.calls += 1;
    this.act(this, nowMs);
  }
}

describe("the shared timer", () => {
  it("calls exactly those that are due and still in the list, whatever is deleted in the meantime", () => {
    vi.useFakeTimers();
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 200 }), fc.boolean()), { maxLength: 20 }), (specs) => {
        let nowMs = 0;
        const deadlines = new Deadlines(() => nowMs, 100);
        const entries = specs.map(([dueMs]) => new Entry(dueMs, (entry) => deadlines.delete(entry)));
        for (const entry of entries) deadlines.add(entry);
        specs.forEach(([, isDeleted], i) => {
          if (isDeleted) deadlines.delete(entries[i] as Entry);
        });
        nowMs = 100;
        vi.advanceTimersByTime(100);
        entries.forEach((entry, i) => {
          expect(entry.calls).toBe(!specs[i]?.[1] && entry.dueMs <= 100 ? 1 : 0);
        });
        nowMs = 200;
        vi.advanceTimersByTime(100);
        entries.forEach((entry, i) => {
          expect(entry.calls).toBe(specs[i]?.[1] ? 0 : 1);
        });
        expect(vi.getTimerCount()).toBe(0);
      }),
    );
    vi.useRealTimers();
  });

  it("follows a deadline that is moved by assignment, and one deleted by another's turn", () => {
    vi.useFakeTimers();
    let nowMs = 0;
    const deadlines = new Deadlines(() => nowMs, 100);
    const moved = new Entry(100);
    const victim = new Entry(100, (entry) => deadlines.delete(entry));
    const killer = new Entry(100, (entry) => {
      deadlines.delete(entry);
      deadlines.delete(victim);
    });
    for (const entry of [victim, moved, killer]) deadlines.add(entry);
    moved.dueMs = 250;
    nowMs = 100;
    vi.advanceTimersByTime(100);
    expect([moved.calls, victim.calls, killer.calls]).toEqual([0, 0, 1]);
    nowMs = 300;
    vi.advanceTimersByTime(200);
    expect(moved.calls).toBeGreaterThan(0);
    deadlines.close();
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });
});
