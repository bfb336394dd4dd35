import type { Responses } from "../../proto/gen/responses.ts";
import { type Command, nodeGroup } from "../command.ts";
import { hostName } from "../option-values.ts";

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
  const weights = node.command("weights").description("weights that a host downloads in advance");
  addList(weights.command("list", { isDefault: true }).example("stoker node weights list gpu-1"));
  addCreate(weights.command("create").example("stoker node weights create gpu-1 Qwen/Qwen3-8B --pin"));
  addDelete(weights.command("delete").example("stoker node weights delete gpu-1 prefetch1")).confirm(
    (_terminal, name: string, id: string) => `Cancel the prefetch ${id} on ${name} and unpin its weights?`,
  );
  // Their old names.
  addCreate(node.command("prefetch", { hidden: true }));
  addDelete(node.command("unfetch", { hidden: true }));
}

const addList = (command: Command): Command =>
  command
    .argument("<node>", "id or name", hostName)
    .description("list prefetched weights of a host with their progress")
    .run(async (terminal, name: string) => {
      const { weights } = await terminal.api.call<{ weights: Prefetch[] }>("GET", path(name));
      terminal.rows(weights, {
        ID: "prefetch_id",
        REPO: "repo",
        REVISION: "revision",
        STATE: (one) => one.fail_code || one.state,
        DONE: (one) => (one.bytes_total > 0 ? `${Math.floor((100 * one.bytes) / one.bytes_total)} %` : ""),
        PINNED: (one) => (one.pinned ? "yes" : ""),
      });
    });

const addCreate = (command: Command): Command =>
  command
    .argument("<node>", "id or name", hostName)
    .argument("<repo>", "hub repository, owner/name")
    .description("download the weights of a hub repository to a host in advance")
    .option("--revision <name>", "branch, tag or commit")
    .option("--file <path>", "only this file")
    .option("--format <name>", "gguf, safetensors, onnx or lora")
    .option("--pin", "never evict them")
    .run(async (terminal, name: string, repo: string, flags: Flags) => {
      const made = await terminal.api.call<Prefetch>("POST", path(name), { repo, ...flags });
      terminal.show(made, ({ prefetch_id }) => prefetch_id);
    });

const addDelete = (command: Command): Command =>
  command
    .argument("<node>", "id or name", hostName)
    .argument("<prefetch_id>")
    .description("cancel a prefetch and unpin its weights; the files are evicted when space is needed")
    .stream(async (terminal, name: string, id: string) => {
      await terminal.api.call("DELETE", path(name, id));
      terminal.progress(`${id} cancelled on ${name}`);
    });
