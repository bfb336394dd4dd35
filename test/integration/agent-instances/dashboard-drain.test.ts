// A control plane that stops with open dashboards, behind a trusted proxy.
import { once } from "node:events";
import { connect } from "node:net";
import { expect, test, vi } from "vitest";
import {
  app,
  ask,
  handshake,
  heard,
  held,
  hostOf,
  openDashboards,
  opened,
  port,
  serving,
  waiting,
} from "./dashboard-world.ts";

// What the test has both sides say in it takes a slow machine seconds.
openDashboards({ bounds: { closingMs: 6_000 }, trustedProxies: ["127.0.0.0/8"] });

/** A whole frame of text, as servers send it. */
const frame = (text: string) => Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]);
const goingAway = Buffer.from([0x88, 0x02, 0x03, 0xe9]);

test("a dashboard gets the browser's address from a trusted proxy, and never a forged one", async () => {
  const id = await serving();
  const headers = { cookie: await opened(id), "x-forwarded-for": "192.0.2.1, 203.0.113.77" };
  expect((await ask(hostOf(id), "/", { headers })).status).toBe(200);
  expect(heard[0]?.headers["x-forwarded-for"]).toBe("203.0.113.77");
});

test("a stopping control plane lets responses end, accepts nothing new, and tells WebSockets to reconnect between two frames", async () => {
  const id = await serving();
  const cookie = await opened(id);
  const bytesOf = ({ read }: { read: () => string }) =>
    Buffer.from(read().split("\r\n\r\n").slice(1).join("\r\n\r\n"), "latin1");

  const open = async () => {
    const one = await handshake(hostOf(id), { cookie }, { port, path: "/held" });
    one.socket.setEncoding("latin1");
    const { socket: inner } = held;
    if (!inner) throw new Error("the dashboard was not reached");
    return { ...one, inner };
  };
  const polite = await open();
  const deaf = await open();
  const whole = frame("a frame that is cut");
  polite.inner.write(whole.subarray(0, 7));
  await vi.waitFor(() => expect(bytesOf(polite)).toHaveLength(7), waiting);

  const asking = connect(port, "127.0.0.1");
  let answers = "";
  asking.setEncoding("latin1").on("data", (part) => {
    answers += part;
  });
  const head = `host: ${hostOf(id)}\r\ncookie: ${cookie}\r\n\r\n`;
  asking.write(`GET /waits HTTP/1.1\r\n${head}`);
  await vi.waitFor(() => expect(answers).toContain("begun, "), waiting);

  let isClosed = false;
  const closing = app.close().then(() => {
    isClosed = true;
  });
  // Whoever is told where it may be told is told at once; nobody in the middle of a frame.
  await vi.waitFor(() => expect(bytesOf(deaf)).toEqual(goingAway), waiting);
  expect(bytesOf(polite)).toHaveLength(7);
  polite.inner.write(Buffer.concat([whole.subarray(7), frame("too late")]));
  await vi.waitFor(() => expect(bytesOf(polite)).toEqual(Buffer.concat([whole, goingAway])), waiting);
  const ended = once(polite.socket, "close");
  polite.socket.write("the browser's answer");
  await vi.waitFor(() => expect(held.heard.toString()).toContain("the browser's answer"), waiting);
  polite.inner.end();
  await ended;
  // One that never closes is cut.
  await vi.waitFor(() => expect(deaf.socket.destroyed).toBe(true), waiting);

  asking.write(`GET / HTTP/1.1\r\n${head}`);
  const fresh = connect(port, "127.0.0.1");
  const [refused] = await once(fresh, "error");
  expect(refused.code).toBe("ECONNREFUSED");
  expect(isClosed).toBe(false);
  const over = once(asking, "close");
  held.answer?.end("ended");
  await over;
  const [first = "", second = ""] = answers.split(/(?=HTTP\/1\.1 503)/);
  expect(first).toMatch(/^HTTP\/1\.1 200 [\s\S]*ended/);
  expect(second).toMatch(/^HTTP\/1\.1 503 [\s\S]*retry-after: 2\r\n/);
  expect(heard.map(({ url }) => url)).toEqual(["/held", "/held", "/waits"]);
  await closing;
});
