// The CLI with the addresses of several control planes: what one that is unavailable costs.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, expect, it } from "vitest";
import { openApi } from "../../cli/api.ts";
import { CliError } from "../../cli/cli-error.ts";

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

async function server(answer: (response: ServerResponse) => void) {
  const asked: string[] = [];
  const one = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    request.resume().once("end", () => answer(response));
  });
  servers.push(one);
  one.listen(0, "127.0.0.1");
  await once(one, "listening");
  return { asked, url: `http://127.0.0.1:${(one.address() as AddressInfo).port}` };
}
const ok = (response: ServerResponse) => void response.end("{}");
const cut = (response: ServerResponse) => void response.destroy();
/** Ports that nobody listens at, and that no server of a test is ever given. */
const [unavailable, alsoUnavailable] = ["http://127.0.0.1:2", "http://127.0.0.1:3"];
const api = (host: string, ...others: string[]) => openApi({ host, others, key: () => "stk_x" });

it("goes to the next where one cannot be reached, whatever is asked, and stays there", async () => {
  const second = await server(ok);
  const client = api(unavailable, second.url);
  await client.call("POST", "/deploy/llm", {});
  await client.call("GET", "/deploy/1");
  expect(second.asked).toEqual(["POST /deploy/llm", "GET /deploy/1"]);
});

it("reads anew at the next where an answer broke off, and does nothing twice that may have been done", async () => {
  const first = await server(cut);
  const second = await server(ok);
  await expect(api(first.url, second.url).call("POST", "/deploy/llm", {})).rejects.toThrow(CliError);
  expect(second.asked).toEqual([]);
  await api(first.url, second.url).call("GET", "/deploy/1");
  expect(second.asked).toEqual(["GET /deploy/1"]);
});

it("names all addresses when none is reachable", async () => {
  await expect(api(unavailable, alsoUnavailable).call("GET", "/v1/me")).rejects.toThrow(
    `Could not reach ${unavailable}, ${alsoUnavailable}.`,
  );
});

it.each([["auth", "set-token"], ["login"]])(
  "keeps all of them beside a key, whichever answered: %s",
  async (...words) => {
    const second = await server(
      (response) => void response.end('{"display_name":"ada","access_token":"stk_12345678"}'),
    );
    const home = mkdtempSync(join(tmpdir(), "stoker-addresses-"));
    try {
      const host = `${unavailable},${second.url}`;
      const main = join(import.meta.dirname, "../../cli/main.ts");
      const child = spawn(process.execPath, [main, "--host", host, ...words], {
        env: { ...process.env, XDG_CONFIG_HOME: home },
        stdio: ["pipe", "ignore", "pipe"],
      });
      child.stdin.end("stk_12345678\n");
      expect(await text(child.stderr)).toMatch(/Signed in as ada/);
      const { current, profiles } = JSON.parse(readFileSync(join(home, "stoker", "config.json"), "utf8"));
      expect([current, profiles.default.hosts.join(",")]).toEqual(["default", host]);
    } finally {
      rmSync(home, { recursive: true });
    }
  },
  60_000,
);
