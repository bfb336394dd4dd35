// The folders of optimised graphs on this host: one of a deployment that went long ago is removed.
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";

/** A deployment that sleeps wakes sooner with it. */
const keptMs = 7 * 24 * 3600 * 1000;

/** `deployIds`: those that stay whatever their age. Never throws. Returns what was removed. */
export async function dropOldGraphs(
  graphsDir: string,
  deployIds: ReadonlySet<string>,
  nowMs: number,
): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const name of await readdir(graphsDir).catch(() => [])) {
    if (deployIds.has(name)) continue;
    const folder = join(graphsDir, name);
    const found = await stat(folder).catch(() => undefined);
    if (!found || nowMs - found.mtimeMs < keptMs) continue;
    await rm(folder, { recursive: true, force: true }).then(
      () => removed.push(name),
      () => {},
    );
  }
  return removed;
}
