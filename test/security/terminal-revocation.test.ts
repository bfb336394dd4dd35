// What ends a terminal without waiting for its next periodic check, which is an hour away here: only the change feed is left.
import { sql } from "kysely";
import { expect, it, vi } from "vitest";
import { createSessionStore } from "../../control-plane/store/accounts/session-store.ts";
import { createSuspensionStore } from "../../control-plane/store/accounts/suspension-rows.ts";
import { createTokenStore } from "../../control-plane/store/accounts/tokens-store.ts";
import type { KeyId } from "../../proto/ids.ts";
import {
  given,
  heard,
  opened,
  openTerminals,
  serving,
  shows,
  waiting,
  world,
} from "../integration/agent-instances/terminal-world.ts";
import { ada, ip } from "../integration/agent-instances/world.ts";

const hour = 3_600_000;
openTerminals({ renewMs: hour, uncheckedMs: hour, closingMs: hour });

const act = { by: "u:operator", ip, note: "" };
const login = Buffer.alloc(32, 9);
const other = Buffer.alloc(32, 8);

async function signIn(): Promise<void> {
  await sql`delete from login_session`.execute(world.db);
  for (const lookup of [login, other])
    await sql`insert into login_session (lookup, account_id, created_at, seen_at, expires_at)
      values (${lookup}, ${ada.account}, now(), now(), now() + interval '1 hour')`.execute(world.db);
}

/** A terminal whose shell answers. */
async function running() {
  const client = await opened(await serving());
  client.ws.send(Buffer.from("echo here\n"));
  await shows(client, "here");
  return client;
}

it.each<[string, (key: KeyId) => Promise<unknown>]>([
  ["is revoked", (key) => createTokenStore(world.db).revokeKey(ada.account, key, act)],
  ["may only read", (key) => createTokenStore(world.db).changeKey(ada.account, key, { role: "read" }, undefined, act)],
])("ends when its key %s", async (_, change) => {
  const key = "key-1" as KeyId;
  await sql`delete from api_key`.execute(world.db);
  await sql`insert into api_key (token_id, account_id, name, lookup, ciphertext, fragment)
    values (${key}, ${ada.account}, 'mine', ${Buffer.alloc(32, 1)}, ${Buffer.alloc(60)}, 'abcd')`.execute(world.db);
  given.by = { key };
  const client = await running();
  await change(key);
  expect(await client.closed).toEqual([1008, "terminal_closed"]);
});

it("ends when its session signs out, and not with another session", async () => {
  await signIn();
  given.by = { login };
  const client = await running();
  const sessions = createSessionStore(world.db);
  await sessions.endSession(other, ip);
  client.ws.send(Buffer.from("echo still-$((40 + 2))\n"));
  await shows(client, "still-42");
  await sessions.endSession(login, ip);
  expect(await client.closed).toEqual([1008, "terminal_closed"]);
});

it("ends when its session is revoked in the list of sessions", async () => {
  await signIn();
  given.by = { login };
  const client = await running();
  const id = login.toString("hex").slice(0, 16);
  expect(await createSessionStore(world.db).revokeSession({ account: ada.account, ip }, id)).toBe(true);
  expect(await client.closed).toEqual([1008, "terminal_closed"]);
});

it("ends when a new password ends its session", async () => {
  await signIn();
  given.by = { login };
  const client = await running();
  const change = { hash: "hash", keep: other, notice: undefined, epoch: 0 };
  expect(await createSessionStore(world.db).setPassword({ account: ada.account, ip }, change)).toBe("set");
  expect(await client.closed).toEqual([1008, "terminal_closed"]);
});

it("ends when its account is suspended", async () => {
  const client = await running();
  const suspensions = createSuspensionStore(world.db);
  await suspensions.suspend(ada.account, "admin", act);
  expect(await client.closed).toEqual([1008, "terminal_closed"]);
  await suspensions.liftAll(ada.account, act);
});

it("leaves no shell to a client that does not complete the closing handshake", async () => {
  const client = await running();
  client.ws.pause();
  const suspensions = createSuspensionStore(world.db);
  await suspensions.suspend(ada.account, "admin", act);
  await vi.waitFor(() => expect(heard.ended).toBe(1), waiting);
  expect(client.ws.readyState).toBe(client.ws.OPEN);
  await suspensions.liftAll(ada.account, act);
  client.ws.terminate();
});
