// A way to terminals: real rows, the real edge, a real data path of an agent, and a shell on this machine in the container's place.

import { spawn } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Duplex } from "node:stream";
import { sql } from "kysely";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, expect, vi } from "vitest";
import { WebSocket } from "ws";
import type { Shell } from "../../../agent/reconcile/driver.ts";
import { permissions } from "../../../control-plane/accounts/permissions.ts";
import { createHttp } from "../../../control-plane/http/core/create-http.ts";
import type { TerminalBounds } from "../../../control-plane/http/terminals/terminal-edge.ts";
import { type ChangeFeed, createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { createTerminalStore } from "../../../control-plane/store/deployments/terminal-store.ts";
import type { TerminalVisitor } from "../../../control-plane/terminals/store.ts";
import { createTerminals } from "../../../control-plane/terminals/terminals.ts";
import type { DeploymentId, InstanceId } from "../../../proto/ids.ts";
import type { TerminalSize } from "../../../proto/terminal-tunnel.ts";
import { type DataPath, startDataPath, ticketKey } from "../../fakes/data-path.ts";
import { apiKey, fakePorts } from "../../fakes/ports.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, made, openWorld, type World } from "./world.ts";

export const waiting = { timeout: 30_000, interval: 20 };

let postgres: TestDatabases;
let announced: OpenDatabase;
let feed: ChangeFeed;
export let world: World;
export let path: DataPath;
export let app: Awaited<ReturnType<typeof createHttp>>;
export let store: ReturnType<typeof createTerminalStore>;
export let metrics: () => Promise<string>;
export let port = 0;
/** What the shells were told. */
export const heard: { sizes: TerminalSize[]; ended: number; printedBytes: number } = {
  sizes: [],
  ended: 0,
  printedBytes: 0,
};
/** Of the next ticket. */
export const given: { by: Partial<TerminalVisitor>; endless: boolean } = { by: {}, endless: false };

/** A shell without a terminal, as the driver of an agent gives it. */
function shellHere(): Shell {
  const child = spawn("sh", [], { stdio: ["pipe", "pipe", "pipe"] });
  const exited = once(child, "close");
  // What is typed after its end is lost, as in a terminal, and takes nothing printed with it.
  child.stdin.on("error", () => {});
  const stream = new Duplex({
    read: () => void child.stdout.resume(),
    write: (chunk, _encoding, done) => void child.stdin.write(chunk, () => done()),
  });
  child.stdout.on("data", (chunk) => stream.push(chunk) || child.stdout.pause());
  child.stdout.once("end", () => stream.push(null));
  return shellOf(
    stream,
    async () => {
      const [code] = await exited;
      return code as number;
    },
    () => void child.kill("SIGKILL"),
  );
}

/** Prints without end, and counts how much was taken from it. */
function endlessShell(): Shell {
  const stream = new Duplex({
    read() {
      const piece = Buffer.alloc(16 * 1024, "y\n");
      heard.printedBytes += piece.length;
      this.push(piece);
    },
    write: (_chunk, _encoding, done) => done(),
  });
  return shellOf(
    stream,
    async () => null,
    () => void stream.destroy(),
  );
}

const shellOf = (stream: Duplex, exitCode: Shell["exitCode"], kill: () => void): Shell => ({
  stream,
  exitCode,
  async resize(size) {
    heard.sizes.push(size);
  },
  async end() {
    kill();
    heard.ended += 1;
  },
});

/** One of each for the whole file; told anew before each test. */
export function openTerminals(bounds: Partial<TerminalBounds> = {}): void {
  beforeAll(async () => {
    postgres = await sharedPostgres();
    const url = await postgres.migratedDatabase();
    world = await openWorld(url);
    const log = pino({ level: "silent" });
    announced = openDatabase(url, { maxConnections: 2, log });
    feed = createChangeFeed({ pool: announced.pool, log });
    path = await startDataPath("http://127.0.0.1:9", {
      openShell: async (_id, size) => {
        heard.sizes.push(size);
        return given.endless ? endlessShell() : shellHere();
      },
    });
    store = createTerminalStore(world.db, permissions.change.members);
    const ports = fakePorts();
    const terminals = createTerminals({
      store,
      dataPath: async () => ({ origin: world.given.agentOrigin, ticketKey: world.given.ticketKey }),
      changes: feed,
    });
    await feed.start();
    app = await createHttp({
      ...ports.deps,
      // The edge's ada is another one than the database's.
      terminals: {
        ...terminals,
        whyNot: (subject) => terminals.whyNot({ ...subject, account: ada.account }),
        ticket: (subject, by) =>
          terminals.ticket({ ...subject, account: ada.account }, { ...by, key: undefined, ...given.by }),
      },
      terminalBounds: { renewMs: 50, ...bounds },
    });
    metrics = () => ports.deps.registry.metrics();
    await app.listen({ host: "127.0.0.1", port: 0 });
    port = (app.server.address() as AddressInfo).port;
  });
  afterAll(async () => {
    await app?.close();
    await path?.close();
    await feed?.stop();
    await announced?.close();
    await world?.close();
    await postgres?.stop();
  });
  beforeEach(async () => {
    await sql`delete from terminal`.execute(world.db);
    await world.empty();
    Object.assign(heard, { sizes: [], ended: 0, printedBytes: 0 });
    Object.assign(given, { by: {}, endless: false });
    world.given.agentOrigin = `http://127.0.0.1:${path.port}`;
    world.given.ticketKey = ticketKey;
    await sql`update host set schedulable = true, inventory = '{"containers": {"terminals": true}}'`.execute(world.db);
    await sql`update account set suspend_reason = null`.execute(world.db);
  });
}

/** An instance of ada's whose container runs. */
export async function serving(name = "mine"): Promise<DeploymentId> {
  const id = await made(world, name);
  const instance = `in-${id}` as InstanceId;
  await sql`insert into instance (instance_id, deploy_id, account_id, host_id, generation, gpu_uuids, phase)
    values (${instance}, ${id}, ${ada.account}, 'host-1', 1, '{}', 'ready')`.execute(world.db);
  path.ingress.allowTerminals(new Set([instance]));
  return id;
}

export async function call(method: string, url: string, headers: Record<string, string> = {}) {
  const answer = await fetch(`http://127.0.0.1:${port}${url}`, {
    method,
    headers: { authorization: `Bearer ${apiKey}`, ...headers },
  });
  return { status: answer.status, body: await answer.json() };
}

export async function ticketFor(id: DeploymentId): Promise<string> {
  const { status, body } = await call("POST", `/v1/agent/${id}/terminal`);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.ticket;
}

export interface Client {
  readonly ws: WebSocket;
  readonly printed: () => string;
  readonly messages: { readonly type: string; readonly code?: unknown }[];
  /** Code and reason of the close. */
  readonly closed: Promise<readonly [number, string]>;
}

interface ClientOptions {
  /** Confirms what it reads. */
  readonly reads?: boolean;
  readonly query?: string;
  readonly origin?: string;
}

/** Rejects with the status and code of a refusal. */
export async function connect(
  ticket: string,
  { reads = true, query = "?columns=100&rows=30", origin }: ClientOptions = {},
): Promise<Client> {
  const protocols = ["stoker-terminal", ...(ticket === "" ? [] : [`ticket.${ticket}`])];
  const ws = new WebSocket(`ws://127.0.0.1:${port}/v1/terminal${query}`, protocols, origin ? { origin } : {});
  let text = "";
  const messages: Client["messages"] = [];
  ws.on("message", (data: Buffer, isBinary) => {
    if (!isBinary) return void messages.push(JSON.parse(String(data)));
    text += data;
    if (reads) ws.send(JSON.stringify({ type: "read", bytes: data.length }));
  });
  const closed = new Promise<readonly [number, string]>((resolve) =>
    ws.once("close", (code, reason) => resolve([code, String(reason)])),
  );
  await new Promise<void>((resolve, reject) => {
    ws.once("open", () => resolve());
    ws.once("unexpected-response", async (_request, answer) => {
      const parts: Buffer[] = [];
      for await (const part of answer) parts.push(part as Buffer);
      reject(new Error(`${answer.statusCode} ${JSON.parse(String(Buffer.concat(parts))).code}`));
    });
    ws.once("error", reject);
  });
  return { ws, printed: () => text, messages, closed };
}

export const opened = async (id: DeploymentId, options: ClientOptions = {}) => connect(await ticketFor(id), options);

export const shows = (client: Client, text: string | RegExp) =>
  vi.waitFor(() => expect(client.printed()).toMatch(text), waiting);

export const audited = (id: DeploymentId) =>
  world.db
    .selectFrom("audit")
    .select(["action", "subject", "ip", "after"])
    .where("action", "like", "terminal.%")
    .where("subject", "=", id)
    .orderBy("auditId")
    .execute();
