import { describe, expect, it } from "vitest";
import { Unacknowledged } from "../../../../agent/state/unacknowledged.ts";
import { anyRecord, spooled } from "../../../fakes/usage-record.ts";

const ids = (kept: Unacknowledged, limit = 10) => kept.oldest(limit)?.map((record) => record.spoolId);

describe("records nobody has acknowledged", () => {
  it("come oldest first, with the id they are acknowledged by", () => {
    const kept = new Unacknowledged();
    kept.emptied();
    for (const id of [7, 8, 9]) kept.add(id, anyRecord({ requestId: `r${id}` }));
    kept.acknowledged(["8", "999"]);
    expect(kept.oldest(10)).toEqual([spooled(7, { requestId: "r7" }), spooled(9, { requestId: "r9" })]);
    expect(ids(kept, 1)).toEqual([7]);
  });

  it("are asked of the file while it may hold others: at the start, and after more than fit here", () => {
    const kept = new Unacknowledged(2);
    kept.add(1, anyRecord());
    expect(ids(kept)).toBeUndefined();
    kept.emptied();
    kept.add(2, anyRecord());
    kept.add(3, anyRecord());
    expect(ids(kept)).toEqual([2, 3]);
    kept.add(4, anyRecord());
    kept.acknowledged(["2", "3"]);
    kept.add(5, anyRecord());
    expect(ids(kept)).toBeUndefined();
    kept.emptied();
    kept.add(6, anyRecord());
    expect(ids(kept)).toEqual([6]);
  });
});
