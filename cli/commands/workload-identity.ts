// `stoker workload-identity`: short-lived keys for programs of a CI or of Kubernetes.
import { InvalidArgumentError, Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import type { Command } from "../command.ts";
import { collect, seconds } from "../option-values.ts";

type Workload = Responses["GET /v1/workload-identities/{id}"];

const path = "/v1/workload-identities";
const pathOf = (id: string) => `${path}/${encodeURIComponent(id)}`;

interface CreateFlags {
  readonly issuer: string;
  readonly audience: string;
  readonly subject: string;
  readonly claim?: Record<string, string>;
  readonly role: string;
  readonly model?: string[];
  readonly life: number;
  readonly member?: string;
  readonly project?: string;
}

function claim(text: string, before: Record<string, string> = {}): Record<string, string> {
  const cut = text.indexOf("=");
  if (cut < 1) throw new InvalidArgumentError("Must be CLAIM=VALUE, such as environment=production.");
  return { ...before, [text.slice(0, cut)]: text.slice(cut + 1) };
}

export function addWorkloadIdentity(program: Command): void {
  const group = program
    .command("workload-identity")
    .description("short-lived keys for programs of a CI or of Kubernetes, without stored secrets");

  group
    .command("list")
    .description("list the workload identities of the account")
    .example("stoker workload-identity list")
    .run(async (terminal) => {
      const { workload_identities: all } = await terminal.api.call<{ workload_identities: Workload[] }>("GET", path);
      terminal.rows(
        all,
        { ID: "id", NAME: "name", ROLE: "role", SUBJECT: "subject" },
        { wide: { ISSUER: "issuer", AUDIENCE: "audience", SECONDS: ({ life_seconds: life }) => String(life) } },
      );
    });

  group
    .command("get <id>")
    .alias("show")
    .description("show a workload identity")
    .example("stoker workload-identity get 4kQ0bYx1Za9c4kQ0bYx1")
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<Workload>("GET", pathOf(id)), workloadText);
    });

  group
    .command("create <name>")
    .description("let tokens of an issuer be exchanged for keys (POST /v1/auth/workload-token)")
    .example("stoker workload-identity create ci --issuer URL --audience A --subject S")
    .requiredOption("--issuer <url>", "claim iss of the tokens")
    .requiredOption("--audience <audience>", "claim aud of the tokens")
    .requiredOption("--subject <pattern>", "claim sub of the tokens; * stands for any characters")
    .option("--claim <claim=value>", "further claim that the tokens must have; repeatable", claim)
    .addOption(
      new Option("--role <role>", "role of the keys").choices(["inference", "read", "admin"]).default("inference"),
    )
    .option("--model <model>", "model that the keys may use; repeatable", collect)
    .option("--member <id>", "service account of the organization whose keys they are")
    .option("--project <id>", "project of the keys; default: the first of the member's, or none")
    .addOption(new Option("--life <time>", "life of the keys, at most 1h").argParser(seconds).default(900, "15m"))
    .run(
      async (terminal, name: string, { claim: claims = {}, model, life, member, project, ...flags }: CreateFlags) => {
        const body = {
          name,
          ...flags,
          claims,
          allowed_models: model ?? null,
          life_seconds: life,
          member_id: member ?? null,
          project_id: project ?? null,
        };
        terminal.show(await terminal.api.call<Workload>("POST", path, body), workloadText);
      },
    );

  group
    .command("delete <id>")
    .description("delete a workload identity and revoke its keys")
    .example("stoker workload-identity delete 4kQ0bYx1Za9c4kQ0bYx1")
    .confirm((_, id: string) => `Delete the workload identity ${id}? Its keys end at once.`)
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<Workload>("DELETE", pathOf(id)), ({ name }) => `${name} deleted`);
    });
}

const workloadText = (one: Workload) =>
  `${one.name} (${one.id}): ${one.role} for ${one.life_seconds} s\nissuer: ${one.issuer}\naudience: ${one.audience}\nsubject: ${one.subject}`;
