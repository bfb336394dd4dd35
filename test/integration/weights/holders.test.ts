// Agents that share a cache keep each other's downloads whole, however long those take.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createHolders } from "../../../agent/weights/holders.ts";

it("what one agent puts together is known to the others for as long as it does", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-holders-"));
  const [one, other] = [createHolders(folder), createHolders(folder)];
  try {
    const done = one.assemble("acme/tiny@main", ["a1", "b2"]);
    const patient = { timeout: 20_000, interval: 20 };
    await expect.poll(async () => [...(await other.assembledElsewhere())].sort(), patient).toEqual(["a1", "b2"]);
    expect((await other.heldKeys())("acme/tiny@main", "c")).toBe(true);
    expect([...(await one.assembledElsewhere())]).toEqual([]);
    done();
    one.want([]);
    await expect.poll(async () => [...(await other.assembledElsewhere())], patient).toEqual([]);
  } finally {
    await Promise.all([one.close(), other.close()]);
    rmSync(folder, { recursive: true, force: true });
  }
});
