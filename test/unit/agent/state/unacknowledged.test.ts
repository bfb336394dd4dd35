import { describe, expect, it } from "vitest";
import { Unacknowledged } from "../../../../agent/state/state-thread.ts";

const ids = (kept: Unacknowledged, limit = 10) => kept.oldest(limit)?.map((record) => record.spoolId);

describe("records nobody has acknowledged", () => {
  it("are returned oldest first, with the id for their acknowledgement", () => {
    const kept = new Unacknowledged();
    kept.emptied();
    for (const id of [7, 8, 9]) kept.add(id, `{"of":${id}}`);
    kept.acknowledged(["8", "999"]);
    expect(kept.oldest(10)).toEqual([
      { spoolId: "7", json: '{"of":7}' },
      { spoolId: "9", json: '{"of":9}' },
    ]);
    expect(ids(kept, 1)).toEqual(["7"]);
  });

  it("are read from the file while it may hold others: at the start, and above the limit", () => {
    const kept = new Unacknowledged(2);
    kept.add(1, "{}");
    expect(ids(kept)).toBeUndefined();
    kept.emptied();
    kept.add(2, "{}");
    kept.add(3, "{}");
    expect(ids(kept)).toEqual(["2", "3"]);
    kept.add(4, "{}");
    kept.acknowledged(["2", "3"]);
    kept.add(5, "{}");
    expect(ids(kept)).toBeUndefined();
    kept.emptied();
    kept.add(6, "{}");
    expect(ids(kept)).toEqual(["6"]);
  });
});
