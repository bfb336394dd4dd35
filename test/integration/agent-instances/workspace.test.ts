// The program of the example image, by itself.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it, vi } from "vitest";
import { freePort } from "../../fakes/free-port.ts";

const waiting = { timeout: 30_000, interval: 50 };
const program = join(import.meta.dirname, "../../../deploy/agents/workspace/server.mjs");
const volume = mkdtempSync(join(tmpdir(), "stoker-workspace-"));
const file = join(volume, "large.bin");

afterAll(() => rmSync(volume, { recursive: true }));

it("closes a file whose reader has left", async () => {
  writeFileSync(file, Buffer.alloc(8 * 1024 ** 2));
  const port = await freePort();
  const env = { ...process.env, PORT: String(port), STOKER_VOLUME: volume };
  const child = spawn(process.execPath, [program], { env, stdio: "ignore" });
  const open = () => {
    const folder = `/proc/${child.pid}/fd`;
    const targets = readdirSync(folder).map((fd) => {
      try {
        return readlinkSync(join(folder, fd));
      } catch {
        return "";
      }
    });
    return targets.filter((target) => target === file).length;
  };
  try {
    await vi.waitFor(async () => expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200), waiting);
    const asking = get({ port, host: "127.0.0.1", path: "/large.bin", agent: false });
    const [answer] = await once(asking, "response");
    answer.on("error", () => {});
    // It is read as far as the connection takes it.
    await vi.waitFor(() => expect(open()).toBe(1), waiting);
    asking.destroy();
    await vi.waitFor(() => expect(open()).toBe(0), waiting);
  } finally {
    child.kill("SIGKILL");
    await once(child, "exit");
  }
});
