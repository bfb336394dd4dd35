// Terminals from the WebSocket of a client to a shell: bytes both ways, their bounds, and everything that ends one.
import { sql } from "kysely";
import { describe, expect, it, vi } from "vitest";
import type { InstanceId } from "../../../proto/ids.ts";
import { maxTerminalBytes, terminalWindow } from "../../../proto/terminal-tunnel.ts";
import {
  audited,
  call,
  connect,
  given,
  heard,
  metrics,
  opened,
  openTerminals,
  path,
  serving,
  shows,
  store,
  ticketFor,
  waiting,
  world,
} from "./terminal-world.ts";
import { ada, bob } from "./world.ts";

openTerminals();

describe("a terminal", () => {
  it("passes what is typed and printed, the size and the exit code", async () => {
    const client = await opened(await serving());
    client.ws.send(Buffer.from("echo typed-$((40 + 2))\n"));
    await shows(client, "typed-42");
    client.ws.send(JSON.stringify({ type: "resize", columns: 132, rows: 50 }));
    await vi.waitFor(
      () =>
        expect(heard.sizes).toEqual([
          { columns: 100, rows: 30 },
          { columns: 132, rows: 50 },
        ]),
      waiting,
    );
    expect(await metrics()).toMatch(/^stoker_terminals 1$/m);
    client.ws.send(Buffer.from("exit 7\n"));
    expect(await client.closed).toEqual([1000, "exited"]);
    expect(client.messages).toEqual([{ type: "exit", code: 7 }]);
  });

  it("passes more than one message and one window hold", async () => {
    const client = await opened(await serving());
    const line = "x".repeat(1_000);
    const count = Math.ceil((3 * terminalWindow) / line.length);
    client.ws.send(Buffer.from(`for i in $(seq ${count}); do echo ${line}; done; echo over\n`));
    await shows(client, /over\n$/);
    expect(client.printed().length).toBe(count * (line.length + 1) + "over\n".length);
  });

  it("holds back a program that prints without end while its client does not read", async () => {
    given.endless = true;
    const client = await opened(await serving(), { reads: false });
    await vi.waitFor(() => expect(client.printed().length).toBeGreaterThanOrEqual(terminalWindow), waiting);
    let last = -1;
    await vi.waitFor(
      () => {
        const before = last;
        last = heard.printedBytes;
        expect(last).toBe(before);
      },
      { timeout: 30_000, interval: 500 },
    );
    expect(client.printed().length).toBeLessThan(terminalWindow + 2 * maxTerminalBytes);
    // Sockets of this machine hold some megabytes.
    expect(heard.printedBytes).toBeLessThan(32 * 1024 * 1024);
    client.ws.send(JSON.stringify({ type: "read", bytes: client.printed().length }));
    await vi.waitFor(() => expect(client.printed().length).toBeGreaterThan(1.5 * terminalWindow), waiting);
    client.ws.close();
    await vi.waitFor(() => expect(heard.ended).toBe(1), waiting);
  });

  it("ends its shell when the client disconnects, and is audited with its duration", async () => {
    const id = await serving();
    const client = await opened(id);
    client.ws.terminate();
    await vi.waitFor(() => expect(heard.ended).toBe(1), waiting);
    await vi.waitFor(async () => expect(await audited(id)).toHaveLength(2), waiting);
    expect(await audited(id)).toMatchObject([
      { action: "terminal.open", subject: id, ip: "127.0.0.1" },
      {
        action: "terminal.close",
        subject: id,
        ip: "127.0.0.1",
        after: { seconds: expect.any(Number), reason: "client disconnected" },
      },
    ]);
    expect(await metrics()).toMatch(/^stoker_terminals 0$/m);
  });

  it("ends when its container ends", async () => {
    const client = await opened(await serving());
    await vi.waitFor(() => expect(heard.sizes).toHaveLength(1), waiting);
    path.ingress.allowTerminals(new Set());
    expect(await client.closed).toEqual([1011, "terminal_host_unavailable"]);
    expect(heard.ended).toBe(1);
  });

  it.each([
    [
      "its account is suspended",
      (id: string) =>
        sql`update account set suspend_reason = 'operator' where account_id = ${ada.account} and ${id} = ${id}`,
    ],
    ["its container is deleted", (id: string) => sql`update deployment set status = 'deleted' where deploy_id = ${id}`],
  ])("ends when %s", async (_, change) => {
    const id = await serving();
    const client = await opened(id);
    await change(id).execute(world.db);
    expect(await client.closed).toEqual([1008, "terminal_closed"]);
    await vi.waitFor(() => expect(heard.ended).toBe(1), waiting);
  });

  it("ends when the session that opened it signs out", async () => {
    const login = Buffer.alloc(32, 9);
    await sql`insert into login_session (lookup, account_id, created_at, seen_at, expires_at)
      values (${login}, ${ada.account}, now(), now(), now() + interval '1 hour')`.execute(world.db);
    given.by = { login };
    const client = await opened(await serving());
    await sql`delete from login_session`.execute(world.db);
    expect(await client.closed).toEqual([1008, "terminal_closed"]);
  });

  it("ends on messages that are none", async () => {
    const id = await serving();
    for (const message of [
      "{",
      '{"type":"resize","columns":0,"rows":24}',
      '{"type":"read","bytes":1000000}',
      '{"type":"other"}',
    ]) {
      const client = await opened(id);
      client.ws.send(message);
      expect(await client.closed, message).toEqual([1008, "invalid_message"]);
    }
    const client = await opened(id);
    client.ws.send(Buffer.alloc(maxTerminalBytes + 1));
    expect((await client.closed)[0]).toBe(1009);
  });

  it("is refused beyond 10 of an account, until one is closed", async () => {
    const id = await serving();
    const all = [];
    for (let n = 0; n < 10; n++) all.push(await opened(id));
    const ticket = await ticketFor(id);
    await expect(connect(ticket)).rejects.toThrow("429 terminal_limit_reached");
    all[0]?.ws.close();
    await vi.waitFor(async () => (await connect(ticket)).ws.close(), waiting);
    for (const { ws } of all) ws.terminate();
    await vi.waitFor(() => expect(heard.ended).toBe(11), waiting);
  });
});

describe("a ticket for a terminal", () => {
  it("is refused with the reason while there can be no terminal", async () => {
    const id = await serving();
    const url = `/v1/agent/${id}/terminal`;
    expect(await call("GET", url)).toEqual({ status: 200, body: { available: true, reason: null } });
    await sql`update host set inventory = '{"containers": {}}'`.execute(world.db);
    expect(await call("GET", url)).toMatchObject({
      status: 200,
      body: { available: false, reason: /does not allow terminals/ },
    });
    expect(await call("POST", url)).toMatchObject({ status: 403, body: { code: "terminal_not_allowed" } });
    await sql`update instance set phase = 'downloading'`.execute(world.db);
    expect(await call("POST", url)).toMatchObject({ status: 409, body: { code: "wrong_state" } });
    await sql`update instance set phase = 'ready'`.execute(world.db);
    await sql`update host set schedulable = false, inventory = '{"containers": {"terminals": true}}'`.execute(world.db);
    expect(await call("POST", url)).toMatchObject({ status: 503, body: { code: "terminal_host_unavailable" } });
    expect(await call("POST", "/v1/agent/agent-none/terminal")).toMatchObject({ status: 404 });
    expect(await call("POST", `/v1/containers/${id}/terminal`)).toMatchObject({ status: 404 });
  });

  it("opens nothing when the agent refuses it or its host is down, and its terminal is closed", async () => {
    const id = await serving();
    world.given.ticketKey = Buffer.alloc(32, 1);
    const refused = await opened(id);
    expect(await refused.closed).toEqual([1011, "terminal_host_unavailable"]);
    world.given.agentOrigin = "http://127.0.0.1:9";
    const lost = await opened(id);
    expect(await lost.closed).toEqual([1011, "terminal_host_unavailable"]);
    expect(lost.messages).toMatchObject([{ type: "error", code: "terminal_host_unavailable" }]);
    await vi.waitFor(
      async () => expect((await sql`select * from terminal`.execute(world.db)).rows).toEqual([]),
      waiting,
    );
  });

  it("belongs to one account", async () => {
    const id = await serving();
    expect(await store.find({ id, kind: "agent_instance", account: bob.account })).toBeUndefined();
    expect(await store.find({ id, kind: "container", account: ada.account })).toBeUndefined();
    expect(await store.find({ id, kind: "agent_instance", account: ada.account })).toMatchObject({
      at: { instance: `in-${id}` as InstanceId, isAllowed: true, isReachable: true },
    });
  });

  it("and terminals of a control plane that was killed are swept and audited", async () => {
    const id = await serving();
    const subject = { id, kind: "agent_instance", account: ada.account } as const;
    const by = { ip: "203.0.113.9", key: undefined, login: undefined };
    const hash = (n: number) => Buffer.alloc(32, n);
    await store.issue(hash(1), subject, by, 30_000, 20);
    await store.issue(hash(2), subject, by, 30_000, 20);
    expect(await store.open(hash(2), { max: 10, forMs: 60_000 }, by.ip)).toMatchObject({ id });
    await sql`update terminal set opened_at = opened_at - interval '90 seconds', expires_at = now() - interval '1 second'`.execute(
      world.db,
    );
    expect(await store.open(hash(1), { max: 10, forMs: 60_000 }, by.ip)).toBeUndefined();
    await store.sweep();
    expect((await sql`select * from terminal`.execute(world.db)).rows).toEqual([]);
    expect((await audited(id)).at(-1)).toMatchObject({
      action: "terminal.close",
      after: { seconds: 89, reason: "control plane ended" },
    });
  });
});
