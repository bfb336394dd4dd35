// A dashboard from its launch token to its WebSocket: real rows, the real edge, a real data path of an agent, and a server of
// our own in the container's place.
import { sql } from "kysely";
import { describe, expect, test, vi } from "vitest";
import { AgentWrongState } from "../../../control-plane/agent-instances/errors.ts";
import type { Launcher } from "../../../control-plane/agent-instances/store.ts";
import { dashboardPath, dashboardProtocol, dashboardPurpose } from "../../../proto/dashboard-tunnel.ts";
import type { InstanceId, KeyId } from "../../../proto/ids.ts";
import { signTicket } from "../../../proto/ticket.ts";
import { ticketFor, ticketKey } from "../../fakes/data-path.ts";
import { apiKey } from "../../fakes/ports.ts";
import {
  ask,
  by,
  dashboardEndMs,
  dashboardOrigin,
  handshake,
  heard,
  hostOf,
  launched,
  metrics,
  openDashboards,
  opened,
  path,
  port,
  serving,
  waiting,
  world,
} from "./dashboard-world.ts";
import { ada, bob, made } from "./world.ts";

openDashboards();

describe("a dashboard", () => {
  test("opens with a launch token, once, with a cookie for this host only; then its page, bodies and WebSocket pass", async () => {
    const id = await serving();
    const url = await launched(id);
    expect(url.host).toBe(hostOf(id));
    const first = await ask(url.host, url.pathname + url.search);
    expect(first.status).toBe(303);
    const [given = ""] = first.headers["set-cookie"] ?? [];
    expect(given).toMatch(/^stoker-dashboard=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/);
    expect(heard).toEqual([]);
    const again = await ask(url.host, url.pathname + url.search);
    expect([again.status, again.headers["set-cookie"]]).toEqual([401, undefined]);

    const cookie = given.split(";")[0] as string;
    const headers = { cookie: `${cookie}; theme=dark`, authorization: `Bearer ${apiKey}`, "x-api-key": apiKey };
    const page = await ask(url.host, "/a?b=1", { headers });
    expect([page.status, page.text]).toEqual([200, "the dashboard"]);
    expect(page.headers["set-cookie"]).toEqual(["theme=dark; Path=/"]);
    const [request] = heard;
    expect(request?.url).toBe("/a?b=1");
    expect(request?.headers).toMatchObject({
      host: url.host,
      cookie: "theme=dark",
      "x-forwarded-host": url.host,
      "x-forwarded-proto": "http",
      "x-forwarded-for": "127.0.0.1",
    });
    expect(JSON.stringify(request?.rawHeaders)).not.toContain(apiKey);
    const echoed = await ask(url.host, "/echo", { method: "POST", headers: { cookie }, body: "x".repeat(300_000) });
    expect([echoed.status, echoed.text.length]).toEqual([200, 300_000]);

    const { socket, read } = await handshake(url.host, { cookie, origin: `http://${url.host}` });
    expect(read()).toMatch(/^HTTP\/1\.1 101 /);
    expect(read()).toContain("x-said: yes");
    socket.write("hello, dashboard");
    await vi.waitFor(() => expect(read()).toContain("hello, dashboard"), waiting);
    socket.destroy();
  });

  test("that refuses a WebSocket returns its own status and message, and continues to serve", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const { socket, read } = await handshake(hostOf(id), { cookie }, { port, path: "/refuses" });
    await vi.waitFor(() => expect(socket.closed).toBe(true), waiting);
    const [head = "", body] = read().split("\r\n\r\n");
    expect(head).toMatch(/^HTTP\/1\.1 404 Not Found\r\n/);
    expect([head.includes("x-why: no"), head.includes("Domain"), body]).toEqual([true, false, "no socket"]);
    expect((await ask(hostOf(id), "/", { headers: { cookie } })).status).toBe(200);
  });

  test("has metrics: requests by class of status, open WebSockets, bytes in both directions", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const read = async (series: string) =>
      Number(new RegExp(`^${series.replace(/[{}"]/g, "\\$&")} (.*)$`, "m").exec(await metrics())?.[1]);
    const names = [
      ...["1xx", "2xx", "4xx"].map((status) => `stoker_dashboard_requests_total{status="${status}"}`),
      ...["in", "out"].map((direction) => `stoker_dashboard_bytes_total{direction="${direction}"}`),
      "stoker_dashboard_websockets",
    ];
    const all = () => Promise.all(names.map(read));
    const before = await all();
    const since = async () => (await all()).map((count, n) => count - (before[n] as number));
    await ask(hostOf(id), "/echo", { method: "POST", headers: { cookie }, body: "x".repeat(1_000) });
    await ask(hostOf(id), "/");
    const { socket, read: said } = await handshake(hostOf(id), { cookie });
    socket.write("0123456789");
    await vi.waitFor(() => expect(said()).toContain("0123456789"), waiting);
    await vi.waitFor(async () => expect(await since()).toEqual([1, 1, 1, 1_010, 1_010, 1]), waiting);
    socket.destroy();
    await vi.waitFor(async () => expect((await since()).at(-1)).toBe(0), waiting);
  });

  test("cannot be opened by another account, another instance's cookie or token, or another site's page", async () => {
    const [one, other] = [await serving("one"), await made(world, "other")];
    await expect(world.instances.launchToken(bob, one, by)).rejects.toMatchObject({ code: "agent_not_found" });
    const cookie = await opened(other);
    expect((await ask(hostOf(one), "/", { headers: { cookie } })).status).toBe(401);
    expect((await ask(hostOf(one), "/")).status).toBe(401);
    const { search, pathname } = await launched(other);
    expect((await ask(hostOf(one), pathname + search)).status).toBe(401);
    const own = await opened(one);
    const foreign = await ask(hostOf(one), "/", { headers: { cookie: own, "sec-fetch-site": "same-site" } });
    expect(foreign.status).toBe(403);
    const { read, socket } = await handshake(hostOf(one), { cookie: own, origin: `http://${hostOf(other)}` });
    expect(read()).toMatch(/^HTTP\/1\.1 403 /);
    socket.destroy();
    expect(heard).toEqual([]);
  });

  test("is separate from the API: neither's requests reach the other by any path", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const headers = { cookie, authorization: `Bearer ${apiKey}` };
    expect((await ask(hostOf(id), "/v1/api-tokens", { headers })).text).toBe("the dashboard");
    expect((await ask(hostOf(id), "/v1/api-tokens", { headers: { authorization: `Bearer ${apiKey}` } })).status).toBe(
      401,
    );
    expect((await ask(`127.0.0.1:${port}`, "/.stoker/launch?token=x", { headers })).status).toBe(404);
    // What asks the API for an upgrade is answered as if it had not.
    const { read, socket } = await handshake(`127.0.0.1:${port}`, {}, { port, path: "/v1/api-tokens" });
    expect(read()).toMatch(/^HTTP\/1\.1 401 /);
    socket.destroy();
    expect(heard).toHaveLength(1);
  });

  test("closes with its account's suspension, its instance's stop and its deletion, with the reason", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const look = async () => {
      world.given.clockMs += 10_000;
      return await ask(hostOf(id), "/", { headers: { cookie } });
    };
    expect((await look()).status).toBe(200);
    await sql`update account set suspend_reason = 'balance' where account_id = ${ada.account}`.execute(world.db);
    expect((await look()).status).toBe(401);
    await sql`update account set suspend_reason = null`.execute(world.db);
    expect((await look()).status).toBe(200);
    await sql`update instance set phase = 'stopped'`.execute(world.db);
    await world.runs(id, "stopped");
    expect(await look()).toMatchObject({ status: 503, text: expect.stringContaining("is stopped") });
    await expect(world.instances.launchToken(ada, id, by)).rejects.toThrow(AgentWrongState);
    await world.runs(id, "deleted");
    expect((await look()).status).toBe(401);
  });

  test("closes when its key is revoked, or its user signs out", async () => {
    const id = await serving();
    await sql`insert into api_key (token_id, account_id, name, lookup, ciphertext, fragment)
      values ('key-1', ${ada.account}, 'mine', '\\x01', '\\x01', '')`.execute(world.db);
    const login = Buffer.from("login");
    await sql`insert into login_session (lookup, account_id, created_at, seen_at, expires_at)
      values (${login}, ${ada.account}, now(), now(), now() + interval '1 day')`.execute(world.db);
    const cookieBy = async (opener: Partial<Launcher>) => {
      const url = new URL(await world.instances.launchToken(ada, id, { ...by, port, ...opener }));
      const { headers } = await ask(url.host, url.pathname + url.search);
      return String(headers["set-cookie"]?.[0]).split(";")[0] as string;
    };
    const byKey = await cookieBy({ key: "key-1" as KeyId });
    const byLogin = await cookieBy({ login });
    const look = async () => {
      world.given.clockMs += 10_000;
      const answers = [byKey, byLogin].map((cookie) => ask(hostOf(id), "/", { headers: { cookie } }));
      return (await Promise.all(answers)).map(({ status }) => status);
    };
    expect(await look()).toEqual([200, 200]);
    await sql`update api_key set revoked_at = now()`.execute(world.db);
    expect(await look()).toEqual([401, 200]);
    await sql`update login_session set expires_at = now() - interval '1 second'`.execute(world.db);
    expect(await look()).toEqual([401, 401]);
    await sql`update login_session set expires_at = now() + interval '1 day'`.execute(world.db);
    expect(await look()).toEqual([401, 200]);
    await sql`delete from login_session`.execute(world.db);
    expect(await look()).toEqual([401, 401]);
  });

  test("that does not respond is 502, and one with an unproven host address 503", async () => {
    const id = await serving();
    const cookie = await opened(id);
    path.target({ dashboard: "http://127.0.0.1:1" });
    const body = { method: "POST", headers: { cookie }, body: "x".repeat(100_000) };
    expect((await ask(hostOf(id), "/", body)).status).toBe(502);
    await sql`update host set schedulable = false`.execute(world.db);
    world.given.clockMs += 10_000;
    const down = await ask(hostOf(id), "/", { headers: { cookie } });
    expect([down.status, down.headers["retry-after"]]).toEqual([503, "5"]);
  });

  test("retains the twenty newest visits, and removes expired ones", async () => {
    const id = await serving();
    const first = await opened(id);
    for (let i = 0; i < 19; i++) await launched(id);
    expect((await ask(hostOf(id), "/", { headers: { cookie: first } })).status).toBe(200);
    await launched(id);
    world.given.clockMs += 10_000;
    expect((await ask(hostOf(id), "/", { headers: { cookie: first } })).status).toBe(401);
    const count = async () => (await world.db.selectFrom("dashboardVisit").select("deployId").execute()).length;
    expect(await count()).toBe(20);
    await sql`update dashboard_visit set expires_at = now() - interval '1 second'`.execute(world.db);
    await world.dashboardStore.sweep();
    expect(await count()).toBe(0);
  });
});

describe("an agent", () => {
  const tunnel = async (instance: string, ticket: object, key = ticketKey) => {
    const purpose = { model: dashboardPurpose, instanceId: instance, ...ticket };
    const headers = { upgrade: dashboardProtocol, "x-stoker-ticket": signTicket(ticketFor(purpose), key) };
    const { read, socket } = await handshake("agent", headers, { port: path.port, path: dashboardPath(instance) });
    socket.destroy();
    return read().split(" ")[1];
  };

  test("opens a tunnel to a dashboard only with a ticket for it", async () => {
    const instance = `in-${await serving()}`;
    expect(await tunnel(instance, {})).toBe("101");
    expect(await tunnel(instance, { model: "some/model" })).toBe("401");
    expect(await tunnel(instance, { instanceId: "another" })).toBe("401");
    expect(await tunnel(instance, { expiresAtMs: Date.now() - 1_000 })).toBe("401");
    expect(await tunnel(instance, {}, Buffer.alloc(32, 1))).toBe("401");
    expect(await tunnel("another", {})).toBe("404");
  });

  test("accepts no new tunnel to an ending instance, and closes existing ones after its grace period", async () => {
    const id = await serving();
    const { socket, read } = await handshake(hostOf(id), { cookie: await opened(id) });
    const beganMs = performance.now();
    path.ingress.setTargets([]);
    path.ingress.setTargets([]);
    expect(await tunnel(`in-${id}`, {})).toBe("404");
    socket.write("its last words");
    await vi.waitFor(() => expect(read()).toContain("its last words"), waiting);
    // Whether it is ended or broken off.
    await vi.waitFor(() => expect(socket.closed).toBe(true), waiting);
    expect(performance.now() - beganMs).toBeGreaterThan(dashboardEndMs * 0.9);
  });

  test("closes nothing of an instance that returns in time", async () => {
    const id = await serving();
    const { socket, read } = await handshake(hostOf(id), { cookie: await opened(id) });
    path.ingress.setTargets([]);
    path.target({ instanceId: `in-${id}` as InstanceId, dashboard: dashboardOrigin() });
    const other = await serving("other");
    const { socket: second } = await handshake(hostOf(other), { cookie: await opened(other) });
    path.target({ instanceId: `in-${id}` as InstanceId, dashboard: dashboardOrigin() });
    // The other's time is over, so this one's would be.
    await vi.waitFor(() => expect(second.closed).toBe(true), waiting);
    socket.write("it goes on");
    await vi.waitFor(() => expect(read()).toContain("it goes on"), waiting);
    socket.destroy();
  });
});
