// An agent that stops while it copies a volume leaves no container frozen: nobody would wake it until an agent is back.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { expect, it, vi } from "vitest";
import { createBackups } from "../../../agent/backups/backups.ts";
import { createFilesystemBlobs } from "../../../agent/backups/filesystem-blobs.ts";
import { createVolumes } from "../../../agent/backups/volume.ts";
import { createFreezer } from "../../../agent/docker/freeze.ts";

const log = pino({ level: "silent" });
const long = AbortSignal.timeout(120_000);

it("a backup that its agent's stop meets is interrupted, its container is awake, and nothing is begun any more", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-stopped-"));
  let state = "running";
  const engine = createServer((req, res) => {
    const path = (req.url ?? "").replace(/^\/v[\d.]+/, "").replace(/\?.*/, "");
    res.setHeader("content-type", "application/json");
    if (path === "/version") return void res.end('{"ApiVersion":"1.41"}');
    if (path === "/containers/json") return void res.end('[{"Id":"c1"}]');
    state = path.endsWith("/unpause") ? "running" : "paused";
    res.writeHead(204).end();
  });
  const socketPath = join(folder, "engine.sock");
  engine.listen(socketPath);
  await once(engine, "listening");
  const volumes = createVolumes(join(folder, "volumes"));
  const backups = createBackups({
    volumes: {
      ...volumes,
      // A large one.
      copyTo: (_id, _to, signal) =>
        new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true })),
    },
    blobs: createFilesystemBlobs(join(folder, "store"), "host", 0),
    users: { ...createFreezer({ nodeName: "node", log, socketPath }), ended: (_id, work) => work() },
    log,
  });
  try {
    await volumes.ensure("vol-1", { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 });
    const backup = backups.backup("vol-1", "backups/vol-1/a", long);
    const ended = expect(backup).rejects.toMatchObject({ code: "interrupted" });
    await vi.waitFor(() => expect(state).toBe("paused"), { timeout: 20_000, interval: 20 });
    await backups.close();
    expect(state).toBe("running");
    await ended;
    expect(await readdir(join(folder, "volumes/vol-1"))).toHaveLength(2);
    await expect(backups.backup("vol-1", "backups/vol-1/b", long)).rejects.toMatchObject({ code: "interrupted" });
    expect(state).toBe("running");
  } finally {
    engine.closeAllConnections();
    engine.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
