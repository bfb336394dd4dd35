import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { homedir, networkInterfaces } from "node:os";
import { join, resolve } from "node:path";
import { connect } from "node:tls";
import { type Command, Option } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { dataPathSettings } from "../data-path.ts";
import { readLocalFile } from "../local-file.ts";
import { nodeGroup } from "../node-group.ts";
import { hostName, seconds } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

const root = "/v1/admin/nodes";

export function addNodeEnrolment(program: Command): void {
  const node = nodeGroup(program);

  node
    .command("token")
    .description("tokens that hosts join with")
    .command("create")
    .description("make a token for one host; printed once")
    .option(
      "--pool <label>",
      "label of the host that joins: `stoker node list --pool`, and a filter of the console",
      "",
    )
    .addOption(new Option("--ttl <time>", "how long it may be used").argParser(seconds).default(900, "15m"))
    .option("--node <node>", "bring this host back, by id or name: revoked, or without its key", hostName)
    .action(async (flags: { pool: string; ttl: number; node?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const body = { pool: flags.pool, ttl_seconds: flags.ttl, node_id: flags.node ?? null };
      const made = await terminal.api.call<{ token: string; expires_at: string }>("POST", `${root}/tokens`, body);
      if (!terminal.json) {
        terminal.progress(`For one host, until ${made.expires_at}. On that host:`);
        terminal.progress("  stoker node join --token-file - --control HOST:PORT   (then paste the token)");
        terminal.progress(
          "HOST:PORT is the control plane's port for agents: `rpc` in ports.json of the data folder of `up`.",
        );
      }
      terminal.show(made, ({ token }) => token);
    });

  node
    .command("join")
    .description("make this machine a host of the control plane that the token is of, and run its agent")
    .argument("[token]", "from `stoker node token create`")
    .option("--token-file <file>", "where the token stands instead; - reads it from standard input")
    .requiredOption("--control <host:port>", "of the control plane's port for agents; several with commas between")
    .option("--data <folder>", "the agent's state, key and certificate", join(homedir(), ".stoker-agent"))
    .option(
      "--advertise <origin>",
      "where control planes reach this host, and where its data path listens, such as https://10.0.0.7:9100",
    )
    .action(async (token: string | undefined, flags: JoinFlags) => {
      // Other users of this machine may read the arguments of a process, for as long as they stand there.
      process.title = "stoker node join";
      const given = token ?? readTokenFile(flags.tokenFile);
      await demandAnswer(flags.control);
      await runAgent(given.trim(), flags);
    });

  node
    .command("revoke")
    .description("take a host's certificate back: no session and no route from here on")
    .argument("<node>", "id or name", hostName)
    .option("--note <text>", "why, for the audit log", "")
    .action(async (id: string, flags: { note: string }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `${root}/${encodeURIComponent(id)}/revoke`;
      const answer = await terminal.api.call<{ node_id: string }>("POST", path, { note: flags.note });
      terminal.show(answer, ({ node_id: acted }) => `Host ${acted} is revoked.`);
    });

  node
    .command("adopt")
    .description("take over a host that has obeyed a newer state than this database holds, with what runs there")
    .argument("<node>", "id or name", hostName)
    .option("--note <text>", "why, for the audit log", "")
    .action(async (id: string, flags: { note: string }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `${root}/${encodeURIComponent(id)}/adopt`;
      terminal.show(await terminal.api.call<Adopted>("POST", path, { note: flags.note }), describeAdopted);
    });
}

interface Adopted {
  readonly node_id: string;
  readonly instances: readonly string[];
  readonly left: readonly { readonly instance_id: string; readonly deploy_id: string; readonly why: string }[];
}

function describeAdopted({ node_id: node, instances, left }: Adopted): string {
  const known = instances.length === 0 ? [] : [`  known again: ${instances.join(", ")}`];
  const unknown = left.map((one) => `  still unknown: ${one.instance_id} of ${one.deploy_id}: ${one.why}`);
  const hint =
    left.length === 0 ? [] : [`What is unknown holds its GPUs until it ends: stoker node end-unknown ${node}`];
  return [`Host ${node} is adopted.`, ...known, ...unknown, ...hint].join("\n");
}

interface JoinFlags {
  readonly control: string;
  readonly data: string;
  readonly advertise?: string;
  readonly tokenFile?: string;
}

function readTokenFile(file: string | undefined): string {
  if (file === undefined)
    throw new CliError(
      "Give the token, or name its file with --token-file (- is standard input).",
      exitCode.wrongUsage,
    );
  return readLocalFile(file).toString();
}

const answerLimitMs = 5_000;

/** An agent would ask for ever, which is right for a host and not for somebody who mistyped a port. */
async function demandAnswer(control: string): Promise<void> {
  const addresses = control.split(",").map((one) => one.trim());
  const troubles = await Promise.all(addresses.map(troubleOf));
  if (troubles.some((trouble) => trouble === undefined)) return;
  const told = addresses.map((address, at) => `${address} (${troubles[at]})`).join(", ");
  throw new CliError(
    `No control plane answers at ${told}. --control is HOST:PORT of its port for agents, not the API's: STOKER_RPC_PORT, ` +
      "or `rpc` in ports.json of the data folder of `up`.",
    exitCode.unavailable,
  );
}

/** Undefined: something listens there that may be a control plane. What speaks no TLS is none: the API's port, most often. */
function troubleOf(address: string): Promise<string | undefined> {
  const cut = address.lastIndexOf(":");
  const port = Number(address.slice(cut + 1));
  if (cut < 1 || !Number.isInteger(port) || port < 1 || port > 65_535) return Promise.resolve("not HOST:PORT");
  return new Promise((resolve_) => {
    const host = address.slice(0, cut).replace(/^\[|\]$/g, "");
    // Nothing is said or believed here: the agent demands the certificate that its token names.
    const socket = connect({ host, port, ALPNProtocols: ["h2"], rejectUnauthorized: false, timeout: answerLimitMs });
    let isConnected = false;
    const end = (trouble: string | undefined) => {
      socket.destroy();
      resolve_(trouble);
    };
    socket.once("connect", () => {
      isConnected = true;
    });
    socket.once("secureConnect", () => end(undefined));
    // A slow one is left to the agent, which has patience.
    socket.once("timeout", () => end(isConnected ? undefined : `no answer within ${answerLimitMs / 1000} s`));
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (!isConnected) end(error.code ?? error.message);
      else end(notTls.has(error.code ?? "") ? "it speaks no TLS" : undefined);
    });
  });
}

/** What OpenSSL calls an answer in plain text. */
const notTls = new Set(["ERR_SSL_WRONG_VERSION_NUMBER", "ERR_SSL_PACKET_LENGTH_TOO_LONG"]);

/** Runs the agent until it ends; whoever keeps it running starts it again without the token. */
function runAgent(token: string, flags: JoinFlags): Promise<void> {
  if (token.split(".").length !== 3)
    throw new CliError("That is no join token: `stoker node token create` prints one.", exitCode.wrongUsage);
  const data = resolve(flags.data);
  mkdirSync(data, { recursive: true, mode: 0o700 });
  const tokenFile = join(data, "join.token");
  // In a file, not in the environment: other users of the machine may read that of a process.
  writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
  const own = Object.values(networkInterfaces()).flatMap((one) => (one ?? []).map(({ address }) => address));
  return new Promise((done, fail) => {
    const child = spawn(
      process.execPath,
      ["--disable-warning=ExperimentalWarning", resolve(import.meta.dirname, "../../agent/main.ts")],
      {
        stdio: "inherit",
        env: {
          // What the operator sets by hand stays: ports may be forwarded.
          ...dataPathSettings(flags.advertise, own),
          ...process.env,
          STOKER_CONTROL: flags.control,
          STOKER_AGENT_DATA: data,
          STOKER_JOIN_TOKEN_FILE: tokenFile,
          STOKER_END_WHEN_REFUSED: "1",
          ...(flags.advertise === undefined ? {} : { STOKER_ADVERTISE: flags.advertise }),
        },
      },
    );
    // Ctrl-C reaches the child as well; this process only waits for its end.
    process.on("SIGINT", () => {});
    process.on("SIGTERM", () => child.kill("SIGTERM"));
    child.once("error", fail);
    child.once("exit", (code) => {
      process.exitCode = code ?? 1;
      done();
    });
  });
}
