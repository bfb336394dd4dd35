// Rented GPUs in containers: `stoker container`.
import type { Command } from "commander";
import { readLocalFile } from "../local-file.ts";
import { openTerminal } from "../terminal.ts";

interface Container {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly ip: string | null;
  readonly ssh_port: number | null;
  readonly gpu_config: string;
  readonly price_per_hour: number;
  readonly container_image: string;
  readonly fail_reason: string | null;
}

interface GpuOffer {
  readonly gpu_config: string;
  readonly usd_per_hour: number;
  readonly available: boolean;
}

const path = (id: string) => `/v1/containers/${encodeURIComponent(id)}`;
const noUserData = "#cloud-config\n";

export function addContainer(program: Command): void {
  const container = program.command("container").description("rented GPUs in containers with SSH");
  container
    .command("list")
    .description("containers of this account")
    .option("--inactive", "failed and deleted ones")
    .action(async ({ inactive }: { inactive?: boolean }, command: Command) => {
      const terminal = openTerminal(command);
      const state = inactive ? "inactive" : "active";
      const all = await terminal.api.call<Container[]>("GET", `/v1/containers?state=${state}`);
      terminal.rows(all, ["ID", "NAME", "STATE", "GPUS", "USD/H", "LOGIN"], (one) => [
        one.id,
        one.name,
        one.state,
        one.gpu_config,
        String(one.price_per_hour),
        loginOf(one) ?? one.fail_reason ?? "",
      ]);
    });
  container
    .command("create <name>")
    .description("rent GPUs; log in with a key of `POST /v1/ssh_keys`")
    .requiredOption("--gpus <config>", "how many of which, such as 1xH100-80GB; see `stoker container offers`")
    .requiredOption("--image <image>", "what it runs; see `stoker container offers`")
    .option("--user-data <file>", "a #! script or a #cloud-config for its first start")
    .action(async (name: string, flags: { gpus: string; image: string; userData?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const body = {
        name,
        gpu_config: flags.gpus,
        container_image: flags.image,
        cloud_init_user_data: flags.userData === undefined ? noUserData : readLocalFile(flags.userData).toString(),
      };
      const made = await terminal.api.call<{ container_id: string }>("POST", "/v1/containers", body);
      terminal.show(made, ({ container_id }) => container_id);
      terminal.progress(
        "It starts; `stoker container get` shows how to log in. What is in it is lost when it is deleted.",
      );
    });
  container
    .command("get <id>")
    .description("one container, and how to log in")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const one = await terminal.api.call<Container>("GET", path(id));
      const more = loginOf(one) ?? one.fail_reason ?? "";
      terminal.show(one, () => `${one.id} ${one.name}: ${one.state}${more === "" ? "" : `\n${more}`}`);
    });
  container
    .command("rename <id> <name>")
    .description("give it another name")
    .action(async (id: string, name: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const one = await terminal.api.call<Container>("PATCH", path(id), { name });
      terminal.show(one, () => `${one.id} is named ${one.name}`);
    });
  container
    .command("delete <id>")
    .description("end it; its data is lost")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call<object>("DELETE", path(id)), () => `${id} is ended`);
    });
  container
    .command("offers")
    .description("images and GPUs that can be rented now")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const { gpus } = await terminal.api.call<{ gpus: GpuOffer[] }>("GET", "/v1/containers/gpu_availability");
      const { container_images } = await terminal.api.call<{ container_images: string[] }>(
        "GET",
        "/v1/containers/params",
      );
      if (terminal.json) return terminal.show({ gpus, container_images }, String);
      terminal.rows(gpus, ["GPUS", "USD/H", "FREE"], (one) => [
        one.gpu_config,
        String(one.usd_per_hour),
        one.available ? "yes" : "no",
      ]);
      terminal.progress(`Images: ${container_images.join(", ") || "none; no host offers containers"}`);
    });
}

const loginOf = ({ ip, ssh_port }: Container) => (ip === null ? undefined : `ssh -p ${ssh_port} ubuntu@${ip}`);
