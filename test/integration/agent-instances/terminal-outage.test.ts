// A terminal while its row cannot be read.
import { sql } from "kysely";
import { expect, it, vi } from "vitest";
import { heard, opened, openTerminals, serving, shows, waiting, world } from "./terminal-world.ts";

openTerminals({ renewMs: 50, uncheckedMs: 2_000 });

it("is closed when no check has succeeded for too long", async () => {
  const client = await opened(await serving());
  client.ws.send(Buffer.from("echo here\n"));
  await shows(client, "here");
  await world.db.transaction().execute(async (trx) => {
    await sql`lock table terminal in access exclusive mode`.execute(trx);
    expect(await client.closed).toEqual([1011, "terminal_unchecked"]);
  });
  expect(client.messages).toMatchObject([{ type: "error", code: "terminal_unchecked" }]);
  await vi.waitFor(() => expect(heard.ended).toBe(1), waiting);
});
