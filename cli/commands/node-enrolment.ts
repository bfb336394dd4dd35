import { mkdirSync, writeFileSync } from "node:fs";
import { homedir, networkInterfaces } from "node:os";
import { join, resolve } from "node:path";
import { connect } from "node:tls";
import { Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { type Command, nodeGroup } from "../command.ts";
import { readLocalFile } from "../local-file.ts";
import type { Node } from "../node.ts";
import { runNode } from "../on-host.ts";
import { hostName, seconds } from "../option-values.ts";
import { programFile } from "../own-files.ts";

const root = "/v1/admin/nodes";

export function addNodeEnrolment(program: Command): void {
  const node = nodeGroup(program);

  node
    .command("token")
    .description("join tokens")
    .command("create")
    .description("create a join token for one host and print it once")
    .example("stoker node token create --pool lab --ttl 30m")
    .option("--pool <label>", "pool label of the host, for `stoker node list --pool` and the console filter", "")
    .addOption(new Option("--ttl <time>", "lifetime of the token").argParser(seconds).default(900, "15m"))
    .option("--node <node>", "re-enrol this host, by id or name, after revocation or loss of its key", hostName)
    .run(async (terminal, flags: { pool: string; ttl: number; node?: string }) => {
      const body = { pool: flags.pool, ttl_seconds: flags.ttl, node_id: flags.node ?? null };
      const made = await terminal.api.call<{ token: string; expires_at: string }>("POST", `${root}/tokens`, body);
      if (!terminal.isStructured) {
        terminal.progress(`Valid for one host until ${made.expires_at}. Run on that host:`);
        terminal.progress("  stoker node join --token-file - --control HOST:PORT   (then paste the token)");
        terminal.progress(
          "HOST:PORT is the control plane's agent port: STOKER_RPC_PORT, or `rpc` in ports.json of the data folder of `up`.",
        );
      }
      terminal.show(made, ({ token }) => token);
    });

  node
    .command("join")
    .description("join this machine to a control plane and run its agent")
    .example("stoker node join --token-file - --control stoker.example.com:8443")
    .argument("[token]", "from `stoker node token create`")
    .option("--token-file <file>", "file with the token; - reads it from standard input")
    .requiredOption("--control <host:port>", "agent port of the control plane; separate several by commas")
    .option("--data <folder>", "folder for state, key and certificate", join(homedir(), ".stoker-agent"))
    .option(
      "--advertise <origin>",
      "URL at which control planes reach the data path of this host, such as https://10.0.0.7:9100",
    )
    .action(async (token: string | undefined, flags: JoinFlags) => {
      // Other users can read process arguments, so hide the token.
      process.title = "stoker node join";
      const given = token ?? readTokenFile(flags.tokenFile);
      await requireControlPlane(flags.control);
      await runAgent(given.trim(), flags);
    });

  node
    .command("revoke")
    .description("revoke the certificate of a host; it gets no more requests")
    .example("stoker node revoke gpu-1")
    .argument("<node>", "id or name", hostName)
    .confirm(async ({ api }, id: string) => {
      const { name, instances } = await api.call<Node>("GET", `${root}/${encodeURIComponent(id)}`);
      return `Revoke ${name}? Its ${instances.length} instances are placed elsewhere, and it must join again.`;
    })
    .option("--note <text>", "reason, recorded in the audit log", "")
    .run(async (terminal, id: string, flags: { note: string }) => {
      const path = `${root}/${encodeURIComponent(id)}/revoke`;
      const answer = await terminal.api.call<{ node_id: string }>("POST", path, { note: flags.note });
      terminal.show(answer, ({ node_id: revoked }) => `Host ${revoked} revoked.`);
    });

  node
    .command("adopt")
    .description("adopt a host whose state is newer than the database, with its running instances")
    .example("stoker node adopt gpu-1")
    .argument("<node>", "id or name", hostName)
    .option("--note <text>", "reason, recorded in the audit log", "")
    .run(async (terminal, id: string, flags: { note: string }) => {
      const path = `${root}/${encodeURIComponent(id)}/adopt`;
      terminal.show(await terminal.api.call<Adopted>("POST", path, { note: flags.note }), describeAdopted);
    });
}

type Adopted = Responses["POST /v1/admin/nodes/{id}/adopt"];

function describeAdopted({ node_id: node, instances, left }: Adopted): string {
  const known = instances.length === 0 ? [] : [`  adopted: ${instances.join(", ")}`];
  const unknown = left.map((one) => `  unknown: ${one.instance_id} of ${one.deploy_id}: ${one.why}`);
  const hint =
    left.length === 0 ? [] : [`Unknown instances occupy GPUs until stopped: stoker node end-unknown ${node}`];
  return [`Host ${node} adopted.`, ...known, ...unknown, ...hint].join("\n");
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
      "Token missing. Give the token, or its file with --token-file (- is standard input).",
      exitCode.wrongUsage,
    );
  return readLocalFile(file).toString();
}

const connectLimitMs = 5_000;

/** Throws CliError if no control plane is reachable. The agent would retry forever, which hides a wrong port. */
async function requireControlPlane(control: string): Promise<void> {
  const addresses = control.split(",").map((one) => one.trim());
  const failures = await Promise.all(addresses.map(connectFailure));
  if (failures.some((failure) => failure === undefined)) return;
  const list = addresses.map((address, index) => `${address} (${failures[index]})`).join(", ");
  throw new CliError(
    `Could not reach a control plane at ${list}. --control must be HOST:PORT of the agent port, not of the API: ` +
      "STOKER_RPC_PORT, or `rpc` in ports.json of the data folder of `up`.",
    exitCode.unavailable,
  );
}

/** Returns the failure, or undefined if a TLS server listens there. A port without TLS is usually the API port. */
function connectFailure(address: string): Promise<string | undefined> {
  const cut = address.lastIndexOf(":");
  const port = Number(address.slice(cut + 1));
  if (cut < 1 || !Number.isInteger(port) || port < 1 || port > 65_535) return Promise.resolve("not HOST:PORT");
  return new Promise((resolve_) => {
    const host = address.slice(0, cut).replace(/^\[|\]$/g, "");
    // No data is sent here. The agent verifies the certificate with the fingerprint in its token.
    const socket = connect({ host, port, ALPNProtocols: ["h2"], rejectUnauthorized: false, timeout: connectLimitMs });
    let isConnected = false;
    const end = (failure: string | undefined) => {
      socket.destroy();
      resolve_(failure);
    };
    socket.once("connect", () => {
      isConnected = true;
    });
    socket.once("secureConnect", () => end(undefined));
    // The agent waits longer for a slow server.
    socket.once("timeout", () => end(isConnected ? undefined : `no response within ${connectLimitMs / 1000} s`));
    socket.on("error", (error: NodeJS.ErrnoException) => {
      if (!isConnected) end(error.code ?? error.message);
      else end(notTls.has(error.code ?? "") ? "no TLS" : undefined);
    });
  });
}

/** OpenSSL errors for a response in plain text. */
const notTls = new Set(["ERR_SSL_WRONG_VERSION_NUMBER", "ERR_SSL_PACKET_LENGTH_TOO_LONG"]);

/** Runs the agent until it exits. A service manager starts it again without the token. */
function runAgent(token: string, flags: JoinFlags): Promise<void> {
  if (token.split(".").length !== 3)
    throw new CliError("Invalid join token. `stoker node token create` prints one.", exitCode.wrongUsage);
  const data = resolve(flags.data);
  mkdirSync(data, { recursive: true, mode: 0o700 });
  const tokenFile = join(data, "join.token");
  // In a file, because other users may read the environment of a process.
  writeFileSync(tokenFile, `${token}\n`, { mode: 0o600 });
  const own = Object.values(networkInterfaces()).flatMap((one) => (one ?? []).map(({ address }) => address));
  return runNode(programFile("agent/main.ts"), [], {
    // The operator's own settings win, because ports may be forwarded.
    ...dataPathSettings(flags.advertise, own),
    ...process.env,
    STOKER_CONTROL: flags.control,
    STOKER_AGENT_DATA: data,
    STOKER_JOIN_TOKEN_FILE: tokenFile,
    ...(flags.advertise === undefined ? {} : { STOKER_ADVERTISE: flags.advertise }),
  });
}

/**
 * Settings of an agent whose data path others reach at `advertise`. It listens on that address if it is one of this machine's
 * (`own`), otherwise on all addresses, as for a host name or a forwarded port. Empty if `advertise` has no port.
 */
export function dataPathSettings(advertise: string | undefined, own: readonly string[]): Record<string, string> {
  const origin = URL.parse(advertise ?? "");
  if (!origin?.port) return {};
  const host = origin.hostname.replace(/^\[|\]$/g, "");
  return { STOKER_INGRESS_HOST: own.includes(host) ? host : "0.0.0.0", STOKER_INGRESS_PORT: origin.port };
}
