import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { readLocalFile } from "../local-file.ts";
import { meantBy } from "../meant-by.ts";
import { isoTime, openTerminal, type Terminal, utcMinute } from "../terminal.ts";
import { addProfiles } from "./auth-profiles.ts";
import { addLogin, addLogout, store } from "./login.ts";

type FactorList = Responses["GET /v1/me/factors"];

export function addAuth(program: Command): void {
  const auth = program
    .command("auth")
    .description("servers and keys of this machine, password and second factors of the account");
  addLogin(auth);
  addLogout(auth);
  addProfiles(auth);
  auth
    .command("set-token [file]")
    .description("check an API key for this server, from a file or stdin, and store it in a profile")
    .example("stoker auth set-token key.txt")
    .action(async (file: string | undefined, _flags: object, command: Command) => {
      const terminal = openTerminal(command, undefined, true);
      if (file === undefined && process.stdin.isTTY) terminal.progress("Paste the key, then press Enter and Ctrl-D.");
      const key = readLocalFile(file ?? "-")
        .toString()
        .trim();
      if (!/^[\x21-\x7e]{8,}$/.test(key)) throw new CliError("Invalid API key format.", exitCode.wrongUsage);
      terminal.progress(await store(terminal.connection, key, command.optsWithGlobals<{ profile?: string }>().profile));
    });
  auth
    .command("set-password [file]")
    .example("stoker auth set-password password.txt")
    .description(
      "set the sign-in password from a file or stdin and end all browser sessions; accounts with a second factor change it " +
        "in the console",
    )
    .stream(async (terminal, file: string | undefined) => {
      if (file === undefined && process.stdin.isTTY)
        terminal.progress("Type the new password, at least 12 characters, then press Enter and Ctrl-D.");
      const password = readLocalFile(file ?? "-")
        .toString()
        .replace(/\r?\n$/, "");
      const { email } = await terminal.api.call<{ email: string }>("GET", "/v1/me");
      await terminal.api.call("POST", "/v1/me/password", { password });
      terminal.progress(`Password set. Sign in as ${email} at ${terminal.connection.host}/login.`);
    });
  auth
    .command("link")
    .description("print a link that signs a browser in once, without a password; not for accounts with a second factor")
    .example("stoker auth link")
    .run(async (terminal) => {
      const link = await terminal.api.call<Responses["POST /v1/auth/sign-in-link"]>("POST", "/v1/auth/sign-in-link");
      terminal.show(link, ({ url }) => url);
      if (!terminal.isStructured) terminal.progress(`Open it before ${isoTime(link.expires_at)}; it works once.`);
    });
  auth
    .command("verify-email")
    .description("mail a link that verifies the account's e-mail address; alerts are mailed to verified addresses only")
    .example("stoker auth verify-email")
    .run(async (terminal) => {
      await terminal.api.call("POST", "/v1/me/verify-email");
      terminal.progress("A mail is on its way. Open its link within three days.");
    });
  addSessions(auth);
  addFactors(auth);
}

function addFactors(auth: Command): void {
  const factor = auth.command("factor").description("second factors; add and remove them in the console");
  const addList = (command: Command) =>
    command.description("list second factors").run(async (terminal) => {
      const list = await terminal.api.call<FactorList>("GET", factorsPath);
      if (terminal.isStructured) return terminal.show(list, String);
      terminal.rows(list.factors, {
        ID: "id",
        KIND: "kind",
        NAME: "name",
        ADDED: (one) => isoTime(one.created_at),
        "LAST USED": (one) => (one.last_used_at === null ? "never" : isoTime(one.last_used_at)),
      });
      terminal.progress(
        list.factors.length > 0
          ? `${list.recovery_codes_left} recovery codes left.`
          : `Set up a second factor at ${terminal.connection.host}/console/security.`,
      );
    });
  addList(factor.command("list").example("stoker auth factor list"));
  addList(auth.command("factors", { hidden: true })).description(
    "list second factors (removed in 0.3.0: use `auth factor list`)",
  );

  const rename = async (terminal: Terminal, given: string, name: string) => {
    const { factors } = await terminal.api.call<FactorList>("GET", factorsPath);
    const id = meantBy(
      given,
      factors.map((one) => ({ key: one.id, names: [one.name] })),
    );
    const renamed = await terminal.api.call<Responses["PATCH /v1/me/factors/{id}"]>(
      "PATCH",
      `${factorsPath}/${encodeURIComponent(id)}`,
      { name },
    );
    terminal.show(renamed, (one) => `${one.id} renamed to ${one.name}.`);
  };
  factor
    .command("update <factor>")
    .description("change the name of a passkey or authenticator app, given by id, name or prefix of either")
    .example('stoker auth factor update telephone --name "New telephone"')
    .requiredOption("--name <name>", "new name")
    .run((terminal, given: string, { name }: { name: string }) => rename(terminal, given, name));
  auth
    .command("rename-factor <factor> <name>", { hidden: true })
    .description("change the name of a second factor (removed in 0.3.0: use `auth factor update`)")
    .run(rename);
}

function addSessions(auth: Command): void {
  const session = auth.command("session").description("browser sessions of the account");
  session
    .command("list")
    .description("list browser sessions, the last used first")
    .example("stoker auth session list")
    .run(async (terminal) => {
      const { sessions } = await terminal.api.call<Responses["GET /v1/me/sessions"]>("GET", sessionsPath);
      terminal.rows(
        sessions,
        {
          ID: "id",
          STARTED: (one) => utcMinute(one.created_at),
          "LAST USED": (one) => utcMinute(one.last_used_at),
          FROM: (one) => one.ip ?? "unknown",
        },
        {
          empty: "No browser sessions.",
          wide: {
            EXPIRES: (one) => utcMinute(one.expires_at),
            FACTORS: (one) => one.factors.join(","),
            BROWSER: (one) => one.user_agent ?? "unknown",
          },
        },
      );
    });
  session
    .command("delete <id>")
    .description("end a browser session at once")
    .example("stoker auth session delete 4f1c2a9b00d1e3f7")
    .confirm((_terminal, id: string) => `End the session ${id}? Its browser must sign in again.`)
    .run(async (terminal, id: string) => {
      await terminal.api.call("DELETE", `${sessionsPath}/${encodeURIComponent(id)}`);
      terminal.show({ id }, () => `${id} ended`);
    });
}

const sessionsPath = "/v1/me/sessions";
const factorsPath = "/v1/me/factors";
