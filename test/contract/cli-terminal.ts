// Runs the command line on a pseudo-terminal of 80 columns and 24 rows, made by `script` of util-linux.
import { spawn } from "node:child_process";
import { vi } from "vitest";
import type { Edge } from "../fakes/edge.ts";
import { programs } from "../fakes/programs.ts";

const waitLimitMs = 30_000;
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export function openCliTerminal(edge: Pick<Edge, "url">, key: string, args: readonly string[]) {
  const command = ["stty cols 80 rows 24; exec", ...[process.execPath, programs.cli, ...args].map(quoted)].join(" ");
  const child = spawn("script", ["--quiet", "--return", "--command", command, "/dev/null"], {
    env: { ...process.env, STOKER_HOST: edge.url, STOKER_API_KEY: key, SHELL: "/bin/sh" },
  });
  let screen = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    screen += text;
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    /** All output so far, with escape sequences. */
    screen: () => screen,
    type: (text: string) => void child.stdin.write(text),
    /** Waits until the output contains `text`. */
    shows: (text: string | RegExp) =>
      vi.waitFor(
        () => {
          if (!(typeof text === "string" ? screen.includes(text) : text.test(screen)))
            throw new Error(`${text} is not on the screen:\n${screen}`);
        },
        { timeout: waitLimitMs, interval: 20 },
      ),
    /** Exit code of the command. */
    exited,
    kill: () => child.kill("SIGKILL"),
  };
}
