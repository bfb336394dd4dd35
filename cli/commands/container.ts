import type { Responses } from "../../proto/gen/responses.ts";
import type { Command } from "../command.ts";
import { readLocalFile } from "../local-file.ts";
import { openShell } from "../shell.ts";
import { type Terminal, utcTime } from "../terminal.ts";

type Container = Responses["GET /v1/containers/{container_id}"];

type GpuOffer = Responses["GET /v1/containers/gpu_availability"]["gpus"][number];

async function rename(terminal: Terminal, id: string, name: string): Promise<void> {
  const one = await terminal.api.call<Container>("PATCH", path(id), { name });
  terminal.show(one, () => `${one.id} renamed to ${one.name}`);
}

const path = (id: string) => `/v1/containers/${encodeURIComponent(id)}`;
const noUserData = "#cloud-config\n";

export function addContainer(program: Command): void {
  const container = program.command("container").description("rented GPUs in containers with SSH");
  container
    .command("list")
    .description("list containers")
    .example("stoker container list")
    .option("--inactive", "list failed and deleted containers instead")
    .run(async (terminal, { inactive }: { inactive?: boolean }) => {
      const state = inactive ? "inactive" : "active";
      const all = await terminal.api.call<Container[]>("GET", `/v1/containers?state=${state}`);
      terminal.rows(
        all,
        {
          ID: "id",
          NAME: "name",
          STATE: "state",
          GPUS: "gpu_config",
          "USD/H": "price_per_hour",
          SSH: ({ ip, ssh_port }) => (ip === null ? "" : `${ip}:${ssh_port}`),
        },
        {
          empty: "No containers. Images and GPUs for one: `stoker container offers`",
          wide: {
            IMAGE: "container_image",
            REASON: ({ fail_reason }) => fail_reason ?? "",
            SINCE: (one) => utcTime(one.start_ts),
          },
        },
      );
    });
  container
    .command("create <name>")
    .description("create a container with GPUs; log in with an SSH key added in the console")
    .example("stoker container create box --gpus 1xH100-80GB --image ubuntu")
    .requiredOption("--gpus <config>", "count and type, such as 1xH100-80GB; see `stoker container offers`")
    .requiredOption("--image <image>", "container image; see `stoker container offers`")
    .option("--user-data <file>", "#! script or #cloud-config for the first start")
    .run(async (terminal, name: string, flags: { gpus: string; image: string; userData?: string }) => {
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
    .example("stoker container get container-4fd1AbCd")
    .run(async (terminal, id: string) => {
      const one = await terminal.api.call<Container>("GET", path(id));
      const more = loginOf(one) ?? one.fail_reason ?? "";
      terminal.show(one, () => `${one.id} ${one.name}: ${one.state}${more === "" ? "" : `\n${more}`}`);
    });
  container
    .command("update <id>")
    .description("change the name of a container")
    .example("stoker container update container-4fd1AbCd --name box-2")
    .requiredOption("--name <name>", "new name")
    .run((terminal, id: string, { name }: { name: string }) => rename(terminal, id, name));
  // Its old name.
  container.command("rename <id> <name>", { hidden: true }).description("change the name of a container").run(rename);
  container
    .command("shell <id>")
    .description("open a shell in a container, where its host allows terminals; exits with the shell's code")
    .example("stoker container shell container-4fd1AbCd")
    .stream(async (terminal, id: string) => {
      process.exitCode = await openShell(terminal, path(id));
    });
  container
    .command("delete <id>")
    .description("delete a container and its data")
    .example("stoker container delete container-4fd1AbCd")
    .confirm(async ({ api }, id: string) => {
      const { name, state } = await api.call<Container>("GET", path(id));
      return `Delete container ${id} (${name}, ${state}) and its data?`;
    })
    .run(async (terminal, id: string) => {
      terminal.show(await terminal.api.call<object>("DELETE", path(id)), () => `${id} deleted`);
    });
  container
    .command("offers")
    .description("list images and available GPUs")
    .example("stoker container offers")
    .run(async (terminal) => {
      const { gpus } = await terminal.api.call<{ gpus: GpuOffer[] }>("GET", "/v1/containers/gpu_availability");
      const { container_images } = await terminal.api.call<{ container_images: string[] }>(
        "GET",
        "/v1/containers/params",
      );
      if (terminal.isStructured) return terminal.show({ gpus, container_images }, String);
      terminal.rows(gpus, {
        GPUS: "gpu_config",
        "USD/H": "usd_per_hour",
        FREE: (one) => (one.available ? "yes" : "no"),
      });
      terminal.progress(`Images: ${container_images.join(", ") || "none, because no host offers containers"}`);
    });
}

const loginOf = ({ ip, ssh_port }: Container) => (ip === null ? undefined : `ssh -p ${ssh_port} ubuntu@${ip}`);
