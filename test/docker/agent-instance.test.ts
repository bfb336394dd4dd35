// An agent instance from its creation to its deletion: real processes, a real engine, a real S3 server.
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, watch, writeFileSync } from "node:fs";
import { type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type Stack, startStack } from "../fakes/processes.ts";
import { type S3Server, startS3Server } from "../fakes/s3-server.ts";
import { clear, docker, leftOf, testSubnet, tinyHost, tinyImage } from "./docker-host.ts";
import { oncePerRun } from "./once.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const image = "stoker-agent-workspace:test";
/** More than lies in the buffers between a container and a browser that does not read. */
const largeBytes = 64 * 1024 * 1024;
const waiting = { timeout: 90_000, interval: 200 };
const hasS3 = await promisify(execFile)(process.env["STOKER_TEST_PYTHON"] ?? "python3", [
  "-c",
  "import moto.server",
]).then(
  () => true,
  () => false,
);
const s3Server = "a real S3 server";
const stores = ["the filesystem store", s3Server];
if (!hasS3)
  console.warn("\n*** NOT PROVEN: an agent instance backed up to a real S3 server, because moto[server] is missing\n");
const host = await tinyHost("agent instances: volume, backup, restore, kill -9 in the middle of a restore");

async function buildWorkspace(): Promise<void> {
  const args = ["build", "--quiet", "--build-arg", `BASE_IMAGE=${tinyImage}`, "--tag", image];
  const env = { ...process.env, DOCKER_BUILDKIT: "0" };
  await run("docker", [...args, join(root, "deploy/agents/workspace")], { env, timeout: 120_000 });
}

const type = {
  id: "workspace",
  pretty_name: "Workspace",
  version: "1",
  image,
  port: 8000,
  volume_path: "/data",
  dashboard_port: 8000,
  backups: { every_hours: 0, keep: 2 },
  plans: [{ id: "standard", vcpu: 1, ram_gb: 0.25, price_per_hour: 0.6 }],
};

interface Agent {
  readonly id: string;
  readonly state: string;
  readonly operation: string | null;
  readonly fail_reason: string | null;
}

describe.skipIf(!host.ok).each(stores)("an agent instance backed up to %s", (store) => {
  let stack: Stack;
  let s3: S3Server | undefined;
  /** As the engine's labels name it: the agent's own word for itself, not the control plane's. */
  let node = "";
  let id = "";

  const look = async (): Promise<Agent> => (await stack.call("GET", `/v1/agent/${id}`)).body;
  const until = (state: string) =>
    vi.waitFor(async () => expect(await look()).toMatchObject({ state, operation: null }), waiting);
  const container = () => docker("ps", "-q", "--filter", `label=stoker.deploy=${id}`);
  const inside = async (script: string) => docker("exec", await container(), "node", "-e", script);
  const write = (text: string) => inside(`require("fs").writeFileSync("/data/file", ${JSON.stringify(text)})`);
  const read = () => inside(`process.stdout.write(require("fs").readFileSync("/data/file", "utf8"))`);
  /** The page at an address of its dashboard; the names of such hosts are this machine's. */
  const page = (url: URL, cookie = "", more: OutgoingHttpHeaders = {}) =>
    new Promise<{ status: number; headers: IncomingHttpHeaders; text: string }>((resolve, reject) => {
      const headers = { host: url.host, accept: "text/html", cookie, ...more };
      const asking = request({ host: "127.0.0.1", port: url.port, path: url.pathname + url.search, headers });
      asking.once("error", reject);
      asking.once("response", async (answer) => {
        const parts: Buffer[] = [];
        for await (const part of answer) parts.push(part as Buffer);
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(parts).toString() });
      });
      asking.end();
    });
  /** A page that nobody reads on; answers how to read it, which says how many bytes came in all. */
  const begun = (url: URL, cookie = "") =>
    new Promise<() => Promise<number>>((resolve, reject) => {
      const asking = request({
        host: "127.0.0.1",
        port: url.port,
        path: url.pathname,
        headers: { host: url.host, cookie },
      });
      asking.once("error", reject);
      asking.once("response", (answer) =>
        resolve(async () => {
          let bytes = 0;
          for await (const part of answer) bytes += part.length;
          return bytes;
        }),
      );
      asking.end();
    });
  /** How often its program heard that it is to end. */
  const ends = async (one: string) => (await docker("logs", one)).split("open responses").length - 1;
  const post = async (path: string, status = 200) => {
    const answer = await stack.call("POST", `/v1/agent/${id}/${path}`);
    expect(answer.status, JSON.stringify(answer.body)).toBe(status);
    return answer.body;
  };

  beforeAll(async () => {
    await oncePerRun("workspace", buildWorkspace);
    s3 = store === s3Server ? await startS3Server() : undefined;
    await s3?.makeBucket("stoker");
    const catalogFile = join(root, ".cache", `agent-types-${process.pid}.json`);
    writeFileSync(catalogFile, JSON.stringify({ types: [type] }));
    stack = await startStack({
      controlPlaneEnv: { STOKER_AGENT_CATALOG: catalogFile },
      agentEnv: {
        STOKER_DRIVER: "docker",
        STOKER_RUNTIME_IMAGE: tinyImage,
        STOKER_ALLOWED_IMAGES: image,
        STOKER_CONTAINER_SUBNET: testSubnet,
        ...(s3
          ? {
              STOKER_BACKUP_S3_BUCKET: "stoker",
              STOKER_BACKUP_S3_ENDPOINT: s3.endpoint,
              AWS_ACCESS_KEY_ID: "test",
              AWS_SECRET_ACCESS_KEY: "test",
            }
          : {}),
      },
    });
    node = JSON.parse(readFileSync(join(stack.agentFolder(1), "agent.json"), "utf8")).host_id;
  });
  afterAll(async () => {
    await stack?.stop();
    if (node !== "") await clear(node);
    await s3?.stop();
  });

  test.skipIf(store === s3Server && !hasS3)(
    "keeps its file over a backup, a change and a restore, and over a stop and a start",
    async () => {
      const made = await stack.call("POST", "/v1/agent", { name: "mine", agent_type_id: "workspace" });
      expect(made.status, JSON.stringify(made.body)).toBe(200);
      id = made.body.instance_id;
      await until("running");
      await write("the first bytes");

      const launch = new URL((await post("launch_token")).dashboard_url);
      const opened = await page(launch);
      expect(opened.status, opened.text).toBe(303);
      const cookie = opened.headers["set-cookie"]?.[0]?.split(";")[0];
      const listed = await page(new URL("/", launch), cookie);
      expect([listed.status, listed.text]).toEqual([200, expect.stringContaining('<a href="/file">')]);
      expect((await page(launch)).status).toBe(401);
      // This program has no WebSocket, and says so itself.
      const upgrade = { connection: "Upgrade", upgrade: "websocket" };
      expect((await page(new URL("/no-socket", launch), cookie, upgrade)).status).toBe(404);

      const { snapshot_name: backup } = await post("backup");
      await until("running");
      expect((await stack.call("GET", `/v1/agent/${id}/backups`)).body).toMatchObject([
        { snapshot_name: backup, state: "ready" },
      ]);
      expect((await look()).fail_reason).toBeNull();

      await write("changed since");
      await post(`backups/${backup}/verify`);
      await until("running");
      expect(await read()).toBe("changed since");

      await post(`backups/${backup}/restore`);
      // The other operation is refused while the first one runs, or the first one has ended by now.
      const second = await stack.call("POST", `/v1/agent/${id}/backup`);
      expect([200, 409]).toContain(second.status);
      await vi.waitFor(async () => expect(await read()).toBe("the first bytes"), waiting);
      await until("running");

      await inside(`require("fs").writeFileSync("/data/large", Buffer.alloc(${largeBytes}))`);
      // Where its new container is reached is known two seconds later.
      await vi.waitFor(async () => expect((await page(new URL("/", launch), cookie)).status).toBe(200), waiting);
      const rest = await begun(new URL("/large", launch), cookie);
      const running = await container();
      // It was started again before, and kept what it said then.
      const before = await ends(running);
      await post("stop");
      await vi.waitFor(async () => expect(await ends(running)).toBe(before + 1), waiting);
      expect(await rest()).toBe(largeBytes);
      await until("stopped");
      expect(await container()).toBe("");
      await post("start");
      await until("running");
      expect(await read()).toBe("the first bytes");
    },
  );

  test.skipIf(store === s3Server)(
    "survives kill -9 of its agent in the middle of a restore: one whole content, and the next one goes through",
    async () => {
      const { snapshot_name: backup } = await post("backup");
      await until("running");
      await write("not in the backup");
      const volume = join(stack.agentFolder(1), "volumes", id);
      const agent = stack.agents[0];
      // The moment the restore begins to fill a folder beside the content: told by the kernel, as looks may miss it.
      const watcher = watch(volume);
      const begun = once(watcher, "change", { signal: AbortSignal.timeout(60_000) });
      await post(`backups/${backup}/restore`);
      await begun.finally(() => watcher.close());
      await agent?.kill9();
      agent?.start();
      await until("running");
      await vi.waitFor(async () => expect(["not in the backup", "the first bytes"]).toContain(await read()), waiting);
      expect(readdirSync(volume)).toHaveLength(2);
      await post(`backups/${backup}/restore`);
      await until("running");
      await vi.waitFor(async () => expect(await read()).toBe("the first bytes"), waiting);
    },
  );

  test.skipIf(store === s3Server)(
    "is billed for the minutes it ran, and its container and network go with it",
    async () => {
      // The record of a minute comes when the minute has ended.
      const billed = { timeout: 150_000, interval: 1_000 };
      await vi.waitFor(async () => {
        const usage = (await stack.call("GET", "/payment/usage?from=current")).body;
        const items: { model: { model_name: string }; cost: number }[] = usage.months.flatMap(
          (month: { items: object[] }) => month.items,
        );
        const own = items.filter((item) => item.model.model_name === "mine");
        expect(
          own.reduce((sum, item) => sum + item.cost, 0),
          JSON.stringify(usage),
        ).toBeGreaterThan(0);
      }, billed);
      // Or the emptiness below proves nothing.
      expect(await leftOf(node)).toHaveLength(2);
      const deleted = await stack.call("DELETE", `/v1/agent/${id}`);
      expect(deleted.status).toBe(200);
      expect((await stack.call("GET", `/v1/agent/${id}`)).body.state).toBe("deleted");
      await vi.waitFor(async () => expect(await leftOf(node)).toEqual([]), waiting);
    },
  );
});
