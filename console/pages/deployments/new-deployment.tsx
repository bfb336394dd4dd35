// Form for a deployment. The server says size, fit and refusals of each GPU type before anything is created.
import { Alert, Grid, Stack, Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { parseSearch } from "../../app/place.ts";
import { useVisitor } from "../../app/visitor.ts";
import { type Deployment, type Offer, partsOf } from "../../domain/deployment.ts";
import { typesWith } from "../../domain/gpu-offers.ts";
import { type DeployForm, faultsOf, requestOf, suggestedName } from "../../domain/new-deployment.ts";
import { text } from "../../text/deployments.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { EngineFields } from "./engine-fields.tsx";
import { type Check, checkOf, useFits } from "./fits.ts";
import { Hardware } from "./hardware.tsx";
import { ModelChoice } from "./model-choice.tsx";
import { ScaleFields } from "./scale-fields.tsx";
import { Summary } from "./summary.tsx";

const words = text.create;

const empty: DeployForm = {
  source: "",
  revision: "",
  token: "",
  task: "text-generation",
  name: "",
  gpu: "",
  numGpus: 1,
  batch: 8,
  min: 1,
  max: 1,
  idle: "",
  sleep: "",
  targetTtft: "",
  targetQueue: "",
  engine: "",
  args: "",
  context: "",
};

/** `?model=` or `?source=` with more fields: a page that links here has chosen them. */
function fromAddress(owner: string): DeployForm {
  const {
    model = "",
    source = model,
    revision = "",
    task = "",
    gpu = "",
    count = "",
    args = "",
  } = parseSearch(location.search);
  return {
    ...empty,
    source,
    revision,
    args,
    gpu,
    name: suggestedName(owner, source),
    task: task || empty.task,
    numGpus: Number(count) || 1,
  };
}

export type Change = (part: Partial<DeployForm>) => void;

export function NewDeployment(): ReactNode {
  const offers = useGet<Responses["GET /deploy/llm/gpu_availability"]>("/deploy/llm/gpu_availability", {
    everyMs: 30_000,
  });
  return (
    <Page title={words.title} about={<Link to="/deployments">{text.detail.back}</Link>}>
      <Loaded query={offers}>{({ gpus }) => <DeployFormPage offers={gpus} />}</Loaded>
    </Page>
  );
}

function DeployFormPage({ offers }: { offers: readonly Offer[] }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const navigate = useNavigate();
  const owner = useVisitor().me.display_name;
  const [form, setForm] = useState(() => fromAddress(owner));
  const [mayWait, setMayWait] = useState(false);
  const change: Change = (part) =>
    setForm((before) => {
      const next = { ...before, ...part };
      // The name follows the weights until it is typed.
      const isSuggested = before.name === "" || before.name === suggestedName(owner, before.source);
      return part.source !== undefined && isSuggested ? { ...next, name: suggestedName(owner, part.source) } : next;
    });
  const types = typesWith(form.numGpus, offers);
  const fits = useFits(useDebouncedValue(form, 500)[0], owner, types);
  const gpu = chosenGpu(form, types, fits);
  const complete = useMemo(() => ({ ...form, gpu }), [form, gpu]);
  const [settled] = useDebouncedValue(complete, 500);
  const faults = faultsOf(complete);
  const check = checkOf(useFits(settled, settled.name, [{ gpu: settled.gpu }]).get(settled.gpu), settled === complete);

  const deploy = async () => {
    const { path, body } = requestOf(complete);
    const created = await api.call<Deployment>("POST", path, body);
    await refresh("/deploy/list");
    await navigate({ to: `/deployments/${created.deploy_id}` });
  };
  const part = { form: complete, change, faults, error: check.error };
  return (
    <Grid gap="lg">
      <Grid.Col span={{ base: 12, lg: 8 }}>
        <Stack gap="lg">
          <Text size="sm" c="dimmed">
            {words.about}
          </Text>
          <ModelChoice {...part} owner={owner} />
          <Hardware {...part} offers={offers} types={types} fits={fits} />
          <ScaleFields {...part} />
          <EngineFields {...part} />
        </Stack>
      </Grid.Col>
      <Grid.Col span={{ base: 12, lg: 4 }}>
        <Summary
          form={complete}
          offer={types.find((one) => one.gpu === gpu)}
          check={check}
          hasFaults={Object.keys(faults).length > 0}
          mayWait={mayWait}
          onMayWait={setMayWait}
          onDeploy={deploy}
        />
        {offers.length === 0 && (
          <Alert color="yellow" variant="light" mt="md">
            {words.noHosts}
          </Alert>
        )}
      </Grid.Col>
    </Grid>
  );
}

/** The chosen type while it exists; otherwise the best one: it fits, is free, and is the cheapest. */
function chosenGpu(
  { gpu }: DeployForm,
  types: readonly { readonly gpu: string }[],
  fits: ReadonlyMap<string, Check>,
): string {
  if (types.some((one) => one.gpu === gpu)) return gpu;
  if (types.length === 0) return partsOf("1xother").gpu;
  return (types.find((one) => fits.get(one.gpu)?.state === "fits") ?? types[0])?.gpu ?? "";
}
