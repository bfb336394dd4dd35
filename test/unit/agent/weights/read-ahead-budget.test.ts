import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, it } from "vitest";
import { createReadAheadBudget, type DownloadSource, download } from "../../../../agent/weights/download.ts";

it.each([
  [0, 1],
  [300, 3],
  [10_000, 6],
])("requests ranges of a file only within the budget of %i bytes", async (budgetBytes, expectedOpen) => {
  const folder = await mkdtemp(join(tmpdir(), "stoker-budget-"));
  const bytes = randomBytes(1000);
  let open = 0;
  let maxOpen = 0;
  const source: DownloadSource = {
    name: "hub",
    hasRanges: true,
    async open({ from, until = bytes.length }) {
      open += 1;
      maxOpen = Math.max(maxOpen, open);
      async function* body() {
        yield bytes.subarray(from, until);
        open -= 1;
      }
      const range = `bytes ${from}-${until - 1}/${bytes.length}`;
      const header = (name: string) => (name === "content-range" ? range : undefined);
      return { status: 206, header, body: Readable.from(body()), url: new URL("http://source/") };
    },
  };
  const readAheadBudget = createReadAheadBudget(budgetBytes);
  try {
    const verified = await download(
      {
        folder,
        content: { key: "b".repeat(64), sha256: undefined, gitSha1: undefined, sizeBytes: 1000, isUnannounced: true },
        sources: [source],
        setting: "HF_ENDPOINT",
        needSpace: async () => {},
        arrived: async () => false,
        onProgress: () => {},
        onBytes: () => {},
        readAhead: { bytes: 100, count: 6, minBytes: 500 },
        readAheadBudget,
      },
      AbortSignal.timeout(20_000),
    );
    expect(bytes.equals(await readFile(verified?.path ?? ""))).toBe(true);
    expect(maxOpen).toBe(expectedOpen);
    expect(readAheadBudget.take(budgetBytes)).toBe(true);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
