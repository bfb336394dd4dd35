// Who can open a terminal: nobody without a fresh ticket of the account's own, and no page of another site.
import { sql } from "kysely";
import { expect, it, vi } from "vitest";
import { adminKey } from "../fakes/ports.ts";
import {
  app,
  call,
  connect,
  heard,
  opened,
  openTerminals,
  port,
  serving,
  shows,
  ticketFor,
  waiting,
  world,
} from "../integration/agent-instances/terminal-world.ts";

openTerminals({ idleMs: 300 });

it("refuses a ticket that was used, has expired or was invented, and a request without one", async () => {
  const id = await serving();
  const used = await ticketFor(id);
  const client = await connect(used);
  await expect(connect(used)).rejects.toThrow("401 terminal_ticket_invalid");
  client.ws.terminate();
  const late = await ticketFor(id);
  await sql`update terminal set expires_at = now() - interval '1 second'`.execute(world.db);
  for (const ticket of [late, "A".repeat(43), "short", ""])
    await expect(connect(ticket), ticket).rejects.toThrow("401 terminal_ticket_invalid");
});

it("uses a ticket once when two connections present it at the same time", async () => {
  const ticket = await ticketFor(await serving());
  const outcomes = await Promise.allSettled([1, 2, 3, 4].map(() => connect(ticket)));
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});

it("refuses a page of another origin and leaves its ticket unused", async () => {
  const ticket = await ticketFor(await serving());
  for (const origin of ["https://evil.example", "null", "http://127.0.0.1:1"])
    await expect(connect(ticket, { origin })).rejects.toThrow("403 origin_not_allowed");
  const own = await connect(ticket, { origin: `http://127.0.0.1:${port}` });
  own.ws.terminate();
});

it("gives no ticket without a key, to another account, to an operator for a customer, and to scoped tokens", async () => {
  const id = await serving();
  const url = `/v1/agent/${id}/terminal`;
  expect(await call("POST", url, { authorization: "" })).toMatchObject({ status: 401 });
  const asOperator = { authorization: `Bearer ${adminKey}`, "x-stoker-act-as": "u:ada" };
  expect(await call("POST", url, asOperator)).toMatchObject({ status: 403, body: { code: "not_for_operators" } });
  expect(await call("POST", url, { authorization: "Bearer jwt:eyJhbGciOiJIUzI1NiJ9.e30.x" })).toMatchObject({
    status: 401,
  });
});

it("refuses a plain request for the path with 426", async () => {
  expect(await call("GET", "/v1/terminal")).toMatchObject({ status: 426, body: { code: "upgrade_required" } });
});

it("closes a terminal that nobody uses", async () => {
  const client = await opened(await serving());
  expect(await client.closed).toEqual([1008, "terminal_expired"]);
  await vi.waitFor(() => expect(heard.ended).toBe(1), waiting);
});

it("ends with 1001 when the control plane shuts down, and its shell ends", async () => {
  const client = await opened(await serving());
  client.ws.send(Buffer.from("echo here\n"));
  await shows(client, "here");
  await app.close();
  expect(await client.closed).toEqual([1001, "restarting"]);
  await vi.waitFor(() => expect(heard.ended).toBe(1), waiting);
});
