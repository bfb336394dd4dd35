// The key of a host: written down before anything is asked for with it.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { expect, it } from "vitest";
import { Identity } from "../../../../agent/session/identity.ts";

it("does not join with a key that could not be stored: the token would be spent and the key lost", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-identity-"));
  // Nobody listens there.
  const address = "127.0.0.1:1";
  const inTheWay = join(folder, "key.pem.new");
  mkdirSync(inTheWay);
  const identity = new Identity({
    folder,
    hostId: "host-1",
    hostname: "h",
    addresses: [address],
    readToken: async () => "id.secret.hash",
    nowMs: Date.now,
    random: Math.random,
    log: pino({ level: "silent" }),
  });
  const tries = () => identity.tls(address, AbortSignal.timeout(20_000));
  try {
    await expect(tries()).rejects.toMatchObject({ code: "EISDIR" });
    await expect(tries()).rejects.toMatchObject({ code: "EISDIR" });
    rmSync(inTheWay, { recursive: true });
    // Now the control plane is asked.
    await expect(tries()).rejects.toThrow(address);
    expect(existsSync(join(folder, "key.pem"))).toBe(true);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
