import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { readLocalFile } from "../local-file.ts";
import { calledInFull, meantBy } from "../meant-by.ts";
import { type Terminal, utcTime } from "../terminal.ts";

type LoraStatus = Responses["GET /v1/lora/{lora_name}"];

interface AddFlags {
  readonly repo?: string;
  readonly url?: string;
  readonly base: string;
  readonly revision?: string;
  readonly hfTokenFile?: string;
  readonly description?: string;
}

export function addLora(program: Command): void {
  const lora = program.command("lora").description("LoRA adapters");
  lora
    .command("create <name>")
    .alias("add")
    .description("add an adapter (owner/name) to a served base model")
    .example("stoker lora create ada/style --base org/model --repo acme/style")
    .requiredOption("--base <model>", "base model")
    .option("--repo <repo>", "hub repository of the adapter")
    .option("--url <url>", "URL of a .safetensors file, for image models")
    .option("--revision <revision>", "branch, tag or commit")
    .option("--hf-token-file <file>", "file with a token for the hub or the URL")
    .option("--description <text>", "shown in lists")
    .run(async (terminal, name: string, flags: AddFlags) => {
      const { repo, url, base, revision, hfTokenFile, description } = flags;
      if ((repo === undefined) === (url === undefined))
        throw new CliError("Give --repo or --url.", exitCode.wrongUsage);
      const token = hfTokenFile === undefined ? undefined : readLocalFile(hfTokenFile).toString().trim();
      const created = await terminal.api.call<{ deploy_id: string }>("POST", "/v1/lora/create", {
        base_model: base,
        lora_name: name,
        source: url === undefined ? { type: "huggingface", repo, revision, token } : { type: "url", url, token },
        description,
      });
      terminal.show(created, ({ deploy_id }) => deploy_id);
      terminal.progress(`The first request for ${name} loads the adapter. Check it: \`stoker lora get ${name}\``);
    });
  lora
    .command("list")
    .description("list your adapters")
    .example("stoker lora list")
    .run(async (terminal) => {
      const all = await terminal.api.call<LoraStatus[]>("GET", "/v1/user/loras");
      terminal.rows(
        all,
        { NAME: "lora_name", BASE: "base_model", STATUS: "status", ID: "deploy_id" },
        {
          empty: "No adapters. Add one: `stoker lora create NAME --base MODEL --repo REPO`",
          wide: { CREATED: (one) => utcTime(one.created_at), REASON: "fail_reason" },
        },
      );
    });
  lora
    .command("get <name>")
    .alias("status")
    .description("show the status of an adapter; a unique prefix of the name is enough")
    .example("stoker lora get ada/style")
    .run(async (terminal, given: string) => {
      const name = await nameOf(terminal, given);
      terminal.show(await terminal.api.call<LoraStatus>("GET", `${pathOf(name)}/status`), (one) =>
        one.fail_reason === "" ? one.status : `${one.status}: ${one.fail_reason}`,
      );
    });
  lora
    .command("delete <name>")
    .description("delete an adapter, given by its full name with or without owner")
    .example("stoker lora delete ada/style")
    .confirm((_, name: string) => `Delete adapter ${name}? Requests to it fail from then on.`)
    .run(async (terminal, given: string) => {
      const name = await nameOf(terminal, given, calledInFull);
      terminal.show(await terminal.api.call("DELETE", pathOf(name)), () => `${name} deleted`);
    });
}

/** Full name of an adapter given without owner or, unless `find` is `calledInFull`, by a unique prefix. */
async function nameOf({ api }: Terminal, given: string, find = meantBy): Promise<string> {
  const all = await api.call<LoraStatus[]>("GET", "/v1/user/loras");
  return find(
    given,
    all.map(({ lora_name: name }) => ({ key: name, names: [name.slice(name.indexOf("/") + 1)] })),
  );
}

/** The slash between owner and name is not encoded. */
const pathOf = (name: string) => `/v1/lora/${name.split("/").map(encodeURIComponent).join("/")}`;
