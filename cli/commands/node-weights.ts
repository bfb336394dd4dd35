import type { Command } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { nodeGroup } from "../command-groups.ts";
import { hostName } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

type Prefetch = Responses["POST /v1/admin/nodes/{node_id}/weights"];

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
    .argument("<repo>", "hub repository, owner/name")
    .description("download the weights of a hub repository to a host in advance")
    .option("--revision <name>", "branch, tag or commit")
    .option("--file <path>", "only this file")
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
    .description("list prefetched weights of a host with their progress")
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
    .description("cancel a prefetch and unpin its weights; the files are evicted when space is needed")
    .action(async (name: string, id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      await terminal.api.call("DELETE", path(name, id));
      terminal.progress(`${id} cancelled on ${name}`);
    });
}
