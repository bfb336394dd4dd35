// The agent of a host stops with open dashboards: their instances continue, so only the agent can end the connections.
import { once } from "node:events";
import { request } from "node:http";
import { expect, test, vi } from "vitest";
import {
  ask,
  handshake,
  heard,
  held,
  hostOf,
  openDashboards,
  opened,
  path,
  port,
  serving,
  waiting,
} from "./dashboard-world.ts";

openDashboards();

const goingAway = Buffer.from([0x88, 0x02, 0x03, 0xe9]);

test("a stopping agent lets responses of dashboards end; WebSockets and new requests are told to reconnect", async () => {
  const id = await serving();
  const cookie = await opened(id);
  const { socket, read } = await handshake(hostOf(id), { cookie }, { port, path: "/held" });
  socket.setEncoding("latin1");
  const bytes = () => Buffer.from(read().split("\r\n\r\n").slice(1).join("\r\n\r\n"), "latin1");
  const asking = request({ host: "127.0.0.1", port, path: "/waits", headers: { host: hostOf(id), cookie } });
  asking.end();
  const [answer] = await once(asking, "response");
  let text = "";
  answer.on("data", (part: Buffer) => {
    text += part;
  });
  const ended = once(answer, "end");
  await vi.waitFor(() => expect(text).toBe("begun, "), waiting);

  let isClosed = false;
  const closing = path.ingress.close(60_000).then(() => {
    isClosed = true;
  });
  const late = await ask(hostOf(id), "/", { headers: { cookie } });
  expect([late.status, late.headers["retry-after"]]).toEqual([503, "5"]);
  expect(heard.map(({ url }) => url)).toEqual(["/held", "/waits"]);
  // Not a moment too early: the program may still say something.
  held.socket?.write(Buffer.from([0x81, 0x02, 0x68, 0x69]));
  await vi.waitFor(() => expect(bytes()).toEqual(Buffer.from([0x81, 0x02, 0x68, 0x69])), waiting);
  held.answer?.end("ended");
  await ended;
  expect([answer.complete, text, isClosed]).toEqual([true, "begun, ended", false]);
  await vi.waitFor(() => expect(bytes().subarray(4)).toEqual(goingAway), waiting);
  await closing;
});
