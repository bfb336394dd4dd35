// The internet, as far as a rented container can tell: an HTTP server behind a network interface of its own, at an address
// that no special-purpose registry lists. It exists only in that namespace: no real outside address is asked.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import { lane } from "./docker-host.ts";

const run = promisify(execFile);
const script = `
  const server = () => require("node:http").createServer((_, answer) => answer.end("outside"));
  server().listen(25, "0.0.0.0", () => server().listen(8080, "0.0.0.0", () => console.log("up")));`;

export interface Outside {
  readonly address: string;
  readonly port: number;
  /** Where mail servers listen. Something answers there as well. */
  readonly mailPort: number;
  /** The same server at an address that is not public (198.18.0.0/15), which a rental must not reach. */
  readonly inside: string;
  /** This host's own address on that network. */
  readonly host: string;
  close(): Promise<void>;
}

/** Throws where network namespaces cannot be made. */
export async function startOutside(): Promise<Outside> {
  const name = `stkr${process.pid}`;
  // Of each of the files that run beside each other its own, and after one that broke off another one.
  const part = ((process.pid % 15) * 4 + lane) * 4;
  const [host, address] = [`192.0.1.${part + 1}`, `192.0.1.${part + 2}`];
  const [insideHost, inside] = [`198.18.113.${part + 1}`, `198.18.113.${part + 2}`];
  const [near, far] = [`skh${process.pid}`, `skf${process.pid}`];
  const ip = (...args: string[]) => run("ip", args, { timeout: 10_000 });
  let server: ChildProcess | undefined;
  const close = async () => {
    if (server && server.exitCode === null) {
      const gone = once(server, "exit");
      server.kill("SIGKILL");
      await gone;
    }
    await ip("netns", "del", name).catch(() => {});
    await ip("link", "del", near).catch(() => {});
  };
  try {
    await ip("netns", "add", name);
    await ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name);
    await ip("addr", "add", `${host}/30`, "dev", near);
    await ip("addr", "add", `${insideHost}/30`, "dev", near);
    await ip("link", "set", near, "up");
    await ip("-n", name, "addr", "add", `${address}/30`, "dev", far);
    await ip("-n", name, "addr", "add", `${inside}/30`, "dev", far);
    await ip("-n", name, "link", "set", far, "up");
    await ip("-n", name, "route", "add", "default", "via", host);
    server = spawn("ip", ["netns", "exec", name, process.execPath, "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(server.stdout as NodeJS.ReadableStream, "data", { signal: AbortSignal.timeout(20_000) });
    return { address, port: 8080, mailPort: 25, inside, host, close };
  } catch (error) {
    await close();
    throw error;
  }
}
