// `stoker node prefetch` and its siblings: weights on a host before anybody asks for them.
import type { Command } from "commander";
import { nodeGroup } from "../node-group.ts";
import { hostName } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

interface Prefetch {
  readonly prefetch_id: string;
  readonly repo: string;
  readonly revision: string;
  readonly file: string;
  readonly format: string;
  readonly pinned: boolean;
  readonly state: string;
  readonly bytes: number;
  readonly bytes_total: number;
  readonly fail_code: string;
  readonly fail_message: string;
}

interface Flags {
  readonly revision?: string;
  readonly file?: string;
  readonly format?: string;
  readonly pin?: boolean;
}

const path = (node: string, id?: string): string =>
  `/v1/admin/nodes/${encodeURIComponent(node)}/weights${id === undefined ? "" : `/${encodeURIComponent(id)}`}`;

export function addNodeWeights(program: Command): void {
  const node = nodeGroup(program);
  node
    .command("prefetch")
    .argument("<node>", "id or name", hostName)
    .argument("<repo>", "of the hub, owner/name")
    .description("fetch the weights of a hub repository to a host ahead of any deployment")
    .option("--revision <name>", "branch, tag or commit")
    .option("--file <path>", "the one file wanted")
    .option("--format <name>", "gguf, safetensors, onnx or lora")
    .option("--pin", "never evict them")
    .action(async (name: string, repo: string, flags: Flags, command: Command) => {
      const terminal = openTerminal(command);
      const made = await terminal.api.call<Prefetch>("POST", path(name), { repo, ...flags });
      terminal.show(made, ({ prefetch_id }) => prefetch_id);
    });
  node
    .command("weights")
    .argument("<node>", "id or name", hostName)
    .description("what a host was asked to fetch ahead, and how far it is")
    .action(async (name: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const { weights } = await terminal.api.call<{ weights: Prefetch[] }>("GET", path(name));
      terminal.rows(weights, ["ID", "REPO", "REVISION", "STATE", "DONE", "PINNED"], (one) => [
        one.prefetch_id,
        one.repo,
        one.revision,
        one.fail_code || one.state,
        one.bytes_total > 0 ? `${Math.floor((100 * one.bytes) / one.bytes_total)} %` : "",
        one.pinned ? "yes" : "",
      ]);
    });
  node
    .command("unfetch")
    .argument("<node>", "id or name", hostName)
    .argument("<prefetch_id>")
    .description("no longer fetch or pin these weights; what is there goes when its room is needed")
    .action(async (name: string, id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      await terminal.api.call("DELETE", path(name, id));
      terminal.progress(`${id} is no longer wanted on ${name}`);
    });
}
