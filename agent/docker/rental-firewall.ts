// Puts the rules of rental-rules.ts into the kernel and takes them out. Idempotent both ways; whoever calls does so one at a
// time. The only user of iptables.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { DriverError } from "../reconcile/driver.ts";
import { type RuleSet, rulesFor } from "./rental-rules.ts";

/** Runs a command, `input` on its standard input; rejects with its words when it fails. */
export type RunCommand = (file: string, args: readonly string[], input?: string) => Promise<string>;

export interface RentalFirewall {
  /** Undefined where rules can be set; else why not, in a sentence for the operator. */
  whyNot(): Promise<string | undefined>;
  /** Throws DriverError when a rule cannot be set: nothing may be started then. */
  apply(): Promise<void>;
  remove(): Promise<void>;
}

const limitMs = 15_000;
const waitSeconds = "5";

export function createRentalFirewall(options: {
  readonly nodeName: string;
  readonly denied: readonly string[];
  readonly run?: RunCommand;
  readonly hasIpv6?: boolean;
}): RentalFirewall {
  const run = options.run ?? runCommand;
  const { v4, v6 } = rulesFor(options.nodeName, options.denied);
  const families = [
    { tool: "iptables", rules: v4 },
    ...((options.hasIpv6 ?? existsSync("/proc/net/if_inet6")) ? [{ tool: "ip6tables", rules: v6 }] : []),
  ];
  const ask = (tool: string, ...args: string[]) => run(tool, ["-w", waitSeconds, ...args]);
  const isThere = (call: Promise<string>) =>
    call.then(
      () => true,
      () => false,
    );

  async function applyFamily(tool: string, { text, jumps }: RuleSet): Promise<void> {
    await run(`${tool}-restore`, ["--noflush", "-w", waitSeconds], text);
    for (const { from, match, to } of jumps) {
      const rule = [...match, "-j", to];
      if (!(await isThere(ask(tool, "-C", from, ...rule)))) await ask(tool, "-I", from, "1", ...rule);
    }
  }

  async function removeFamily(tool: string, { jumps, chains }: RuleSet): Promise<void> {
    for (const { from, match, to } of jumps) while (await isThere(ask(tool, "-D", from, ...match, "-j", to)));
    for (const chain of chains) {
      if (!(await isThere(ask(tool, "-F", chain)))) continue;
      await ask(tool, "-X", chain);
    }
  }

  return {
    async whyNot() {
      for (const { tool } of families) {
        const chain = tool === "iptables" ? "DOCKER-USER" : "FORWARD";
        try {
          await ask(tool, "-S", chain);
        } catch (error) {
          return `rentals need a firewall between customers, and ${tool} cannot be used here (${firstLine(error)}): run the agent as root on a host with iptables, and the Docker engine with its own iptables rules.`;
        }
      }
      return undefined;
    },
    async apply() {
      try {
        for (const { tool, rules } of families) await applyFamily(tool, rules);
      } catch (error) {
        throw new DriverError(
          "start_failed",
          `The firewall of this host could not be set (${firstLine(error)}), so no rented container is started.`,
          { retryable: true, cause: error },
        );
      }
    },
    async remove() {
      for (const { tool, rules } of families) await removeFamily(tool, rules);
    },
  };
}

function runCommand(file: string, args: readonly string[], input?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      file,
      args,
      { timeout: limitMs, env: { ...process.env, LC_ALL: "C" } },
      (error, out, said) => {
        if (!error) return resolve(out);
        reject(new Error(said.trim() || error.message, { cause: error }));
      },
    );
    child.stdin?.on("error", () => {});
    child.stdin?.end(input ?? "");
  });
}

const firstLine = (error: unknown) =>
  String((error as Error).message)
    .split("\n")[0]
    ?.slice(0, 200) ?? "";
