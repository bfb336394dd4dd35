// `stoker auth status`, `list`, `use` and `token`: profiles of this machine.
import type { Responses } from "../../proto/gen/responses.ts";
import type { Command } from "../command.ts";
import { configPath, readConfig, requireProfile, writeConfig } from "../profiles.ts";

type Account = Responses["GET /v1/me"];

export function addProfiles(auth: Command): void {
  auth
    .command("status")
    .description("show server, key and account that commands use; exits with 3 if the key is rejected")
    .example("stoker auth status")
    .run(async (terminal) => {
      const { host, others = [], profile, keySource, dataFolder } = terminal.connection;
      const key = terminal.connection.key();
      const { uid, display_name, email, is_admin } = await terminal.api.call<Account>("GET", "/v1/me");
      const status = {
        profile: profile ?? null,
        hosts: [host, ...others],
        data: dataFolder ?? null,
        key: masked(key),
        key_source: keySource ?? null,
        account: { uid, display_name, email, is_admin },
      };
      terminal.show(status, () =>
        [
          `profile  ${profile ?? "none"}`,
          `server   ${status.hosts.join(", ")}`,
          ...(dataFolder === undefined ? [] : [`data     ${dataFolder}`]),
          `key      ${status.key} from ${keySource}`,
          `account  ${display_name} (${uid})${email === null ? "" : ` ${email}`}${is_admin ? ", operator" : ""}`,
        ].join("\n"),
      );
    });
  auth
    .command("list")
    .description("list profiles; * marks the one in use")
    .example("stoker auth list")
    .run((terminal) => {
      const { current, profiles } = readConfig(process.env);
      const rows = Object.entries(profiles).map(([name, { hosts, key }]) => ({
        name,
        hosts,
        key: masked(key),
        in_use: name === current,
      }));
      terminal.rows(
        rows,
        {
          PROFILE: ({ name, in_use }) => `${name}${in_use ? " *" : ""}`,
          SERVER: ({ hosts }) => hosts.join(","),
          KEY: "key",
        },
        { empty: `No profiles in ${configPath(process.env)}. \`stoker login\` creates one.` },
      );
    });
  auth
    .command("use <profile>")
    .description("use a profile from now on; --profile and STOKER_PROFILE choose one for a single command")
    .example("stoker auth use prod")
    .run((terminal, name: string) => {
      const config = readConfig(process.env);
      const { hosts } = requireProfile(config, name);
      writeConfig(process.env, { ...config, current: name });
      terminal.show({ profile: name, hosts }, () => `Using profile ${name}: ${hosts.join(", ")}`);
    });
  auth
    .command("token")
    .description("print the API key that commands use, for scripts")
    .example("stoker auth token")
    .run((terminal) => terminal.show({ token: terminal.connection.key() }, ({ token }) => token));
}

/** Last characters of a key, by which lists of keys name it. */
const masked = (key: string): string => `...${key.slice(-4)}`;
