// A way to dashboards: real rows, the real edge, a real data path of an agent, and a server of
// our own in the container's place.
import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, vi } from "vitest";
import { labelOf } from "../../../control-plane/agent-instances/dashboard-address.ts";
import type { Launcher } from "../../../control-plane/agent-instances/store.ts";
import { createHttp } from "../../../control-plane/http/core/create-http.ts";
import type { DashboardBounds } from "../../../control-plane/http/dashboards/dashboard-edge.ts";
import type { DeploymentId, InstanceId } from "../../../proto/ids.ts";
import { workspace } from "../../fakes/agent-instance-ports.ts";
import { type DataPath, startDataPath, ticketKey } from "../../fakes/data-path.ts";
import { apiKey, fakePorts } from "../../fakes/ports.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, made, openWorld, type World } from "./world.ts";

export const waiting = { timeout: 30_000, interval: 20 };
export const maxOpen = 40;
/** Time enough for a slow machine to do in it what a test does in it. */
export const dashboardEndMs = 5_000;

let postgres: TestDatabases;
export let world: World;
let dashboard: Server;
export let path: DataPath;
export let app: Awaited<ReturnType<typeof createHttp>>;
/** The control plane's page. */
export let metrics: () => Promise<string>;
export let port = 0;
/** What the container heard, the last one last. */
export const heard: IncomingMessage[] = [];
export let left = 0;
/** What the edge is told instead of a visit. */
export const given: { broken: Error | undefined } = { broken: undefined };
/** Answers and WebSockets that the container holds until a test ends them, with what it heard on the latter. */
export const held: { answer?: ServerResponse; socket?: Duplex; heard: Buffer } = { heard: Buffer.alloc(0) };

interface Given {
  readonly bounds?: Partial<DashboardBounds>;
  readonly trustedProxies?: readonly string[];
}

/** One of each for the whole file; told anew before each test. */
export function openDashboards({ bounds = {}, trustedProxies = [] }: Given = {}): void {
  beforeAll(async () => {
    postgres = await sharedPostgres();
    world = await openWorld(await postgres.migratedDatabase());
    dashboard = createServer((req, res) => {
      heard.push(req);
      if (req.url === "/hangs") return void res.once("close", () => left++);
      if (req.url === "/waits") {
        held.answer = res;
        return void res.writeHead(200, { "content-type": "text/plain" }).write("begun, ");
      }
      if (req.url === "/refuses") return void res.writeHead(413).end("too much");
      res.setHeader("set-cookie", ["theme=dark; Path=/", "wide=1; Domain=localhost"]);
      if (req.url === "/echo") req.pipe(res);
      else res.end("the dashboard");
    });
    dashboard.on("upgrade", (req, socket) => {
      heard.push(req);
      socket.on("error", () => socket.destroy());
      if (req.url === "/hangs") return void socket.once("end", () => left++).resume();
      if (req.url === "/refuses")
        return void socket.end(
          "HTTP/1.1 404 Not Found\r\nset-cookie: wide=1; Domain=localhost\r\nx-why: no\r\ncontent-length: 9\r\n\r\nno socket",
        );
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nx-said: yes\r\n\r\n",
      );
      if (req.url !== "/held") return void socket.pipe(socket);
      held.socket = socket;
      socket.on("data", (part) => {
        held.heard = Buffer.concat([held.heard, part]);
      });
    });
    // A machine that stands still for seconds must not make it close what is about to be used.
    dashboard.keepAliveTimeout = 600_000;
    dashboard.listen(0, "127.0.0.1");
    await once(dashboard, "listening");
    path = await startDataPath("http://127.0.0.1:9", { limits: { dashboardEndMs } });
    const ports = fakePorts();
    // The edge's ada is another one than the database's.
    const launchToken = (_: unknown, id: DeploymentId, by: Launcher & { port: number | undefined }) =>
      world.instances.launchToken(ada, id, { ...by, key: undefined });
    const agentInstances = { ...ports.deps.agentInstances, launchToken };
    app = await createHttp({
      ...ports.deps,
      agentInstances,
      dashboards: {
        ...world.dashboards,
        find: (label, cookie) => (given.broken ? Promise.reject(given.broken) : world.dashboards.find(label, cookie)),
      },
      dashboardBounds: { maxOpen, recheckMs: 100, ...bounds },
      trustedProxies,
    });
    metrics = () => ports.deps.registry.metrics();
    await app.listen({ host: "127.0.0.1", port: 0 });
    port = (app.server.address() as AddressInfo).port;
  });
  afterAll(async () => {
    await app?.close();
    await path?.close();
    dashboard?.closeAllConnections();
    dashboard?.close();
    await world?.close();
    await postgres?.stop();
  });
  beforeEach(async () => {
    await world.empty();
    heard.length = 0;
    held.heard = Buffer.alloc(0);
    given.broken = undefined;
    world.given.agentOrigin = `http://127.0.0.1:${path.port}`;
    world.given.ticketKey = ticketKey;
    world.types.set(workspace.id, { ...workspace, dashboardPort: 9000 });
    await sql`update host set schedulable = true`.execute(world.db);
    await sql`update account set suspend_reason = null`.execute(world.db);
  });
}

export const dashboardOrigin = () => `http://127.0.0.1:${(dashboard.address() as AddressInfo).port}`;

/** An instance of ada's that serves at the data path. */
export async function serving(name = "mine"): Promise<DeploymentId> {
  const id = await made(world, name);
  const instance = `in-${id}` as InstanceId;
  await sql`insert into instance (instance_id, deploy_id, account_id, host_id, generation, gpu_uuids, phase)
    values (${instance}, ${id}, ${ada.account}, 'host-1', 1, '{}', 'ready')`.execute(world.db);
  path.target({ instanceId: instance, dashboard: dashboardOrigin() });
  return id;
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export const ask = (
  host: string,
  url: string,
  { method = "GET", headers = {}, body }: { method?: string; headers?: Record<string, string>; body?: string } = {},
) =>
  new Promise<Answer>((resolve, reject) => {
    const asking = request({ host: "127.0.0.1", port, path: url, method, agent: false, headers: { host, ...headers } });
    asking.once("error", reject);
    asking.once("response", async (answer) => {
      const parts: Buffer[] = [];
      for await (const part of answer) parts.push(part as Buffer);
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(parts).toString() });
    });
    asking.end(body);
  });

const api = (method: string, url: string) =>
  ask(`127.0.0.1:${port}`, url, { method, headers: { authorization: `Bearer ${apiKey}` } });
export const by = { ip: "203.0.113.9", port: 0, key: undefined, login: undefined };
export const hostOf = (id: DeploymentId) => `${labelOf(id)}.localhost:${port}`;

export async function launched(id: DeploymentId): Promise<URL> {
  const { status, text } = await api("POST", `/v1/agent/${id}/launch_token`);
  expect(status, text).toBe(200);
  return new URL(JSON.parse(text).dashboard_url);
}

/** The cookie that its launch address leaves. */
export async function opened(id: DeploymentId): Promise<string> {
  const url = await launched(id);
  const { status, headers, text } = await ask(url.host, url.pathname + url.search);
  expect([status, headers.location], text).toEqual([303, "/"]);
  return String(headers["set-cookie"]?.[0]).split(";")[0] as string;
}

/** The head of the answer to a WebSocket's handshake, and its connection. */
export async function handshake(host: string, headers: Record<string, string>, to = { port, path: "/socket" }) {
  const socket: Socket = connect(to.port, "127.0.0.1");
  let text = "";
  socket.on("error", () => {});
  socket.on("data", (part) => {
    text += part;
  });
  const all = { host, connection: "Upgrade", upgrade: "websocket", ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET ${to.path} HTTP/1.1\r\n${lines.join("")}\r\n`);
  await vi.waitFor(() => expect(text).toContain("\r\n\r\n"), waiting);
  return { socket, read: () => text };
}
