// Limits and ends of requests to dashboards: disconnected browsers, open connections, failures.
import { once } from "node:events";
import { createServer, request } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { sql } from "kysely";
import { describe, expect, test, vi } from "vitest";
import { DatabaseUnavailable } from "../../../control-plane/service-error.ts";
import { dashboardProtocol } from "../../../proto/dashboard-tunnel.ts";
import {
  ask,
  given,
  handshake,
  heard,
  hostOf,
  left,
  maxOpen,
  openDashboards,
  opened,
  path,
  port,
  serving,
  waiting,
  world,
} from "./dashboard-world.ts";
import { ada } from "./world.ts";

openDashboards();

describe("a dashboard", () => {
  test("is disconnected when the browser disconnects", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const before = left;
    const asking = request({ host: "127.0.0.1", port, path: "/hangs", headers: { host: hostOf(id), cookie } });
    asking.on("error", () => {});
    asking.end();
    await vi.waitFor(() => expect(heard).toHaveLength(1), waiting);
    asking.destroy();
    await vi.waitFor(() => expect(left).toBe(before + 1), waiting);
  });

  test("frees a WebSocket slot when its browser disconnects before the dashboard responded", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const before = left;
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => {});
    socket.write(
      `GET /hangs HTTP/1.1\r\nhost: ${hostOf(id)}\r\ncookie: ${cookie}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`,
    );
    await vi.waitFor(() => expect(heard).toHaveLength(1), waiting);
    socket.end();
    await vi.waitFor(() => expect(left).toBe(before + 1), waiting);
    socket.destroy();
  });

  test("gets all permitted connections, without waiting; one more is refused", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const before = left;
    const held = Array.from({ length: maxOpen }, () => {
      const asking = request({
        ...{ host: "127.0.0.1", port, path: "/hangs", agent: false },
        headers: { host: hostOf(id), cookie },
      });
      asking.on("error", () => {});
      asking.end();
      return asking;
    });
    await vi.waitFor(() => expect(heard).toHaveLength(maxOpen), waiting);
    expect((await ask(hostOf(id), "/", { headers: { cookie } })).status).toBe(429);
    const { read, socket } = await handshake(hostOf(id), { cookie });
    expect(read()).toMatch(/^HTTP\/1\.1 429 /);
    socket.destroy();
    for (const asking of held) asking.destroy();
    await vi.waitFor(() => expect(left).toBe(before + maxOpen), waiting);
    expect((await ask(hostOf(id), "/", { headers: { cookie } })).status).toBe(200);
  });

  test("that responds before it has read the body leaves no connection open for the rest", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const socket = connect(port, "127.0.0.1");
    let text = "";
    let isOver = false;
    socket.on("error", () => {});
    socket.on("data", (part) => {
      text += part;
    });
    socket.once("close", () => {
      isOver = true;
    });
    const head = `host: ${hostOf(id)}\r\ncookie: ${cookie}\r\n`;
    const rest = Buffer.alloc(2_000_000, "x");
    socket.write(`POST /refuses HTTP/1.1\r\n${head}content-length: ${rest.length + 10}\r\n\r\n0123456789`);
    await vi.waitFor(() => expect(text).toContain("too much"), waiting);
    expect(text).toMatch(/^HTTP\/1\.1 413 /);
    socket.write(rest);
    socket.write(`GET / HTTP/1.1\r\n${head}\r\n`);
    // Read to its end in time, so that the next request is answered; or else closed.
    await vi.waitFor(() => expect(isOver || text.includes("the dashboard")).toBe(true), waiting);
    socket.destroy();
  });

  test("of a host whose agent has too many connections is busy, and does not count as down", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const agent = createServer().on("upgrade", (_, socket) =>
      socket.end("HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
    );
    agent.listen(0, "127.0.0.1");
    await once(agent, "listening");
    world.given.agentOrigin = `http://127.0.0.1:${(agent.address() as AddressInfo).port}`;
    world.given.clockMs += 10_000;
    expect((await ask(hostOf(id), "/", { headers: { cookie } })).status).toBe(429);
    agent.close();
  });

  test("closes an open stream and an open WebSocket when their visit ends", async () => {
    const id = await serving();
    const cookie = await opened(id);
    const { socket, read } = await handshake(hostOf(id), { cookie });
    expect(read()).toMatch(/^HTTP\/1\.1 101 /);
    const asking = request({ host: "127.0.0.1", port, path: "/hangs", headers: { host: hostOf(id), cookie } });
    asking.on("error", () => {});
    asking.end();
    await vi.waitFor(() => expect(heard).toHaveLength(2), waiting);
    let cuts = 0;
    for (const one of [socket, asking]) one.once("close", () => cuts++);
    await sql`update account set suspend_reason = 'balance' where account_id = ${ada.account}`.execute(world.db);
    world.given.clockMs += 10_000;
    await vi.waitFor(() => expect(cuts).toBe(2), waiting);
  });

  test("that fails through our fault names the request's id, for the operator's log", async () => {
    const id = await serving();
    given.broken = new Error("a fault");
    const { status, headers, text } = await ask(hostOf(id), "/");
    expect([status, text]).toEqual([500, expect.stringContaining(`It is ${headers["x-request-id"]}.`)]);
    given.broken = new DatabaseUnavailable("unreachable");
    const away = await ask(hostOf(id), "/");
    expect([away.status, away.headers["retry-after"]]).toEqual([503, "2"]);
  });
});

describe("an agent", () => {
  test("closes a refused connection, whether or not its peer closes it", async () => {
    const socket = connect({ port: path.port, host: "127.0.0.1", allowHalfOpen: true });
    const ended = once(socket, "end");
    let isGone = false;
    socket.on("error", () => {
      isGone = true;
    });
    socket.resume();
    socket.write("GET /i/x/dashboard HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\n");
    socket.write(`upgrade: ${dashboardProtocol}\r\n\r\n`);
    await ended;
    await vi.waitFor(() => {
      // What is closed on the other side answers bytes by a reset.
      socket.write("x");
      expect(isGone).toBe(true);
    }, waiting);
    socket.destroy();
  });
});
