// `stoker agent shell` on a pseudo-terminal, and with a pipe instead of one.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it, vi } from "vitest";
import { openCliTerminal } from "../../contract/cli-terminal.ts";
import { apiKey } from "../../fakes/ports.ts";
import { programs } from "../../fakes/programs.ts";
import { heard, openTerminals, port, serving, waiting } from "./terminal-world.ts";

openTerminals();

const url = () => `http://127.0.0.1:${port}`;

it("passes keys and output, has the size of its terminal and exits with the shell's code", async () => {
  const cli = openCliTerminal({ url: url() }, apiKey, ["agent", "shell", await serving()]);
  await cli.shows("Ctrl-] closes the connection");
  cli.type("echo typed-$((40 + 2))\n");
  await cli.shows("typed-42");
  expect(heard.sizes).toEqual([{ columns: 80, rows: 24 }]);
  cli.type("exit 7\n");
  expect(await cli.exited).toBe(7);
});

it("ends by Ctrl-], and its shell with it", async () => {
  const cli = openCliTerminal({ url: url() }, apiKey, ["agent", "shell", await serving()]);
  await cli.shows("Ctrl-] closes the connection");
  cli.type("echo here\n");
  await cli.shows("here");
  cli.type("\u001D");
  expect(await cli.exited).toBe(0);
  await vi.waitFor(() => expect(heard.ended).toBe(1), waiting);
});

it("runs the commands of a pipe", async () => {
  const child = spawn(process.execPath, [programs.cli, "agent", "shell", await serving()], {
    env: { ...process.env, STOKER_HOST: url(), STOKER_API_KEY: apiKey },
    stdio: ["pipe", "pipe", "inherit"],
  });
  let printed = "";
  child.stdout.on("data", (text) => {
    printed += text;
  });
  child.stdin.end("echo typed-$((40 + 2)); exit 3\n");
  const [code] = await once(child, "close");
  expect([code, printed]).toEqual([3, "typed-42\n"]);
});

it("says why there is no terminal", async () => {
  const cli = openCliTerminal({ url: url() }, apiKey, ["agent", "shell", "agent-none"]);
  await cli.shows("Agent instance not found");
  expect(await cli.exited).toBe(4);
});
