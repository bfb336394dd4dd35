// Adds a set of rules to the kernel and removes it. Idempotent both ways; callers serialise their calls. The only user of
// iptables. Rules are in the table `mangle`, which is evaluated before `filter`: the engine removes and re-adds its jump to
// DOCKER-USER whenever it creates a network, and connections opened in between would stay open.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";

/** Runs a command, `input` on its standard input; rejects with its words when it fails. */
type RunCommand = (file: string, args: readonly string[], input?: string) => Promise<string>;

export interface Jump {
  readonly from: string;
  readonly match: readonly string[];
  readonly to: string;
}

interface RuleSet {
  readonly chains: readonly string[];
  /** For `iptables-restore --noflush`: chains are made or emptied and filled in one step. */
  readonly text: string;
  readonly jumps: readonly Jump[];
  /** A chain of `filter` without which they are of no use. */
  readonly needs?: string;
}

export interface Rules {
  readonly v4: RuleSet;
  readonly v6: RuleSet;
}

export interface Firewall {
  /** Undefined where rules can be set; else which tool failed and with what words. */
  whyNot(): Promise<string | undefined>;
  apply(): Promise<void>;
  remove(): Promise<void>;
}

export interface FirewallOptions {
  readonly run?: RunCommand;
  readonly hasIpv6?: boolean;
}

const table = "mangle";
const limitMs = 15_000;
const waitSeconds = "5";

export function createFirewall({ v4, v6 }: Rules, options: FirewallOptions = {}): Firewall {
  const run = options.run ?? runCommand;
  const families = [
    { tool: "iptables", rules: v4 },
    ...((options.hasIpv6 ?? existsSync("/proc/net/if_inet6")) ? [{ tool: "ip6tables", rules: v6 }] : []),
  ];
  const askIn = (of: string, tool: string, ...args: string[]) => run(tool, ["-w", waitSeconds, "-t", of, ...args]);
  const ask = (tool: string, ...args: string[]) => askIn(table, tool, ...args);
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
      for (const { tool, rules } of families) {
        try {
          for (const chain of new Set(rules.jumps.map(({ from }) => from))) await ask(tool, "-S", chain);
          if (rules.needs !== undefined) await askIn("filter", tool, "-S", rules.needs);
        } catch (error) {
          return `${tool} cannot be used here (${firstLine(error)})`;
        }
      }
      return undefined;
    },
    async apply() {
      for (const { tool, rules } of families) await applyFamily(tool, rules);
    },
    async remove() {
      for (const { tool, rules } of families) await removeFamily(tool, rules);
    },
  };
}

/** Prefix of the chains of one node; a chain's name has at most 28 characters. */
export function chainPrefix(nodeName: string): string {
  return `STOKER-${createHash("sha256").update(nodeName).digest("hex").slice(0, 8)}`;
}

export function ruleSet(chains: readonly string[], rules: readonly string[], jumps: readonly Jump[]): RuleSet {
  const text = [`*${table}`, ...chains.map((chain) => `:${chain} - [0:0]`), ...rules, "COMMIT", ""].join("\n");
  return { chains, text, jumps };
}

export const firstLine = (error: unknown): string =>
  String((error as Error).message)
    .split("\n")[0]
    ?.slice(0, 200) ?? "";

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
