// Limits of acknowledged records that are kept, on a real disk that is full.
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openDatabase } from "../../../agent/state/database.ts";
import type { End } from "../../../agent/state/state-messages.ts";
import { mountSmallDisk, type SmallDisk } from "../../fakes/small-disk.ts";

const maxBytes = 256 * 1024;
const here = mountSmallDisk(1, "limits of kept records on a full disk (run the tests as root on Linux)");
here?.unmount();

describe.skipIf(!here)("kept records on a full disk", () => {
  let disk: SmallDisk;
  beforeEach(() => {
    disk = mountSmallDisk(8, "") as SmallDisk;
  });
  afterEach(() => disk.unmount());

  it("stay within the limit after retries that could not free space", () => {
    const path = join(disk.folder, "state.db");
    const db = openDatabase(path, Date.now, { maxAgeMs: 3_600_000, maxBytes });
    const end = (n: number): End => ({
      requestId: `r${n}`,
      attempt: 1,
      leaseIds: "",
      record: JSON.stringify({ n, pad: "x".repeat(4_000) }),
      hadStart: false,
    });
    const acknowledge = (ids: readonly string[]) => db.write([["acknowledge", ids]], [], true);
    const write = (from: number, count: number) =>
      db.write(
        [],
        Array.from({ length: count }, (_, at) => end(from + at)),
        true,
      );
    write(0, 60);
    acknowledge(db.pending(100).map((row) => row.spoolId));
    db.shrinkLog();

    disk.fill();
    let failures = 0;
    for (let retry = 0; retry < 10; retry += 1)
      try {
        write(1_000 + retry * 500, 500);
      } catch {
        failures += 1;
      }
    expect(failures).toBe(10);
    disk.free();

    for (let round = 0; round < 4; round += 1) {
      write(100_000 + round * 50, 50);
      acknowledge(db.pending(100).map((row) => row.spoolId));
    }
    db.close();
    const file = new DatabaseSync(path);
    const kept = file.prepare("SELECT coalesce(sum(length(record)), 0) AS bytes FROM kept").get() as { bytes: number };
    file.close();
    expect(kept.bytes).toBeLessThanOrEqual(maxBytes);
  });
});
