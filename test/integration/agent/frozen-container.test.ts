// A container that is frozen while its volume is copied, at an engine of which only the answers that matter are there.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pino from "pino";
import { expect, it } from "vitest";
import { DockerDriver } from "../../../agent/docker/docker-driver.ts";
import type { InstanceId } from "../../../proto/ids.ts";

it("a stop does not say that a frozen container has ended, and sends it no signal until it is awake", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-engine-"));
  let state = "paused";
  const Labels = {
    "stoker.node": "node",
    "stoker.instance": "one",
    "stoker.deploy": "two",
    "stoker.plan": "three",
    "stoker.generation": "1",
    "stoker.port": "80",
  };
  const heard: string[] = [];
  const engine = createServer((req, res) => {
    const path = (req.url ?? "").replace(/^\/v[\d.]+/, "").replace(/\?.*/, "");
    res.setHeader("content-type", "application/json");
    if (path === "/version") return void res.end('{"ApiVersion":"1.41"}');
    if (path === "/containers/json") return void res.end(JSON.stringify([{ Id: "c1", State: state, Labels }]));
    heard.push(`${req.method} ${path}`);
    res.writeHead(204).end();
  });
  const socketPath = join(folder, "engine.sock");
  engine.listen(socketPath);
  await once(engine, "listening");
  const driver = new DockerDriver({
    log: pino({ level: "silent" }),
    socketPath,
    nodeName: "node",
    runtimeImage: "runtime:test",
  });
  const stop = () => driver.stop("one" as InstanceId, 1_000, AbortSignal.timeout(20_000));
  try {
    await expect(stop()).rejects.toMatchObject({ retryable: true, message: expect.stringContaining("is frozen") });
    expect(heard).toEqual([]);
    state = "running";
    await stop();
    expect(heard).toEqual(["POST /containers/c1/stop"]);
  } finally {
    await driver.close();
    engine.closeAllConnections();
    engine.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
