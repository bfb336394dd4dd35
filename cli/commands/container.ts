import type { Command } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { readLocalFile } from "../local-file.ts";
import { openTerminal } from "../terminal.ts";

type Container = Responses["GET /v1/containers/{container_id}"];

type GpuOffer = Responses["GET /v1/containers/gpu_availability"]["gpus"][number];

const path = (id: string) => `/v1/containers/${encodeURIComponent(id)}`;
const noUserData = "#cloud-config\n";

export function addContainer(program: Command): void {
  const container = program.command("container").description("rented GPUs in containers with SSH");
  container
    .command("list")
    .description("list containers")
    .option("--inactive", "list failed and deleted containers instead")
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
    .description("create a container with GPUs; log in with an SSH key added in the console")
    .requiredOption("--gpus <config>", "count and type, such as 1xH100-80GB; see `stoker container offers`")
    .requiredOption("--image <image>", "container image; see `stoker container offers`")
    .option("--user-data <file>", "#! script or #cloud-config for the first start")
    .action(async (name: string, flags: { gpus: string; image: string; userData?: string }, command: Command) => {
      const terminal = openTerminal(command);
      const body = {
        name,
        gpu_config: flags.gpus,
        container_image: flags.image,
        cloud_init_user_data: flags.userData === undefined ? noUserData : readLocalFile(flags.userData).toString(),
      };
      const created = await terminal.api.call<{ container_id: string }>("POST", "/v1/containers", body);
      terminal.show(created, ({ container_id }) => container_id);
      terminal.progress(
        "The container is starting. `stoker container get` shows the login command. Deleting it deletes its data.",
      );
    });
  container
    .command("get <id>")
    .description("show a container and its login command")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const one = await terminal.api.call<Container>("GET", path(id));
      const more = loginOf(one) ?? one.fail_reason ?? "";
      terminal.show(one, () => `${one.id} ${one.name}: ${one.state}${more === "" ? "" : `\n${more}`}`);
    });
  container
    .command("rename <id> <name>")
    .description("rename a container")
    .action(async (id: string, name: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const one = await terminal.api.call<Container>("PATCH", path(id), { name });
      terminal.show(one, () => `${one.id} renamed to ${one.name}`);
    });
  container
    .command("delete <id>")
    .description("delete a container and its data")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call<object>("DELETE", path(id)), () => `${id} deleted`);
    });
  container
    .command("offers")
    .description("list images and available GPUs")
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
      terminal.progress(`Images: ${container_images.join(", ") || "none, because no host offers containers"}`);
    });
}

const loginOf = ({ ip, ssh_port }: Container) => (ip === null ? undefined : `ssh -p ${ssh_port} ubuntu@${ip}`);
