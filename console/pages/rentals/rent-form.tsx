import { Radio, Select, Stack, Text, Textarea, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGetAll, useRefresh } from "../../api/hooks.ts";
import { hoursPerMonth } from "../../domain/deployment.ts";
import { text as all } from "../../text/rentals.ts";
import { Command } from "../../ui/code.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { usd } from "../../ui/format.ts";
import { Loaded } from "../../ui/notice.tsx";
import { Empty } from "../../ui/page.tsx";

type Params = Responses["GET /v1/containers/params"];
type Offers = Responses["GET /v1/containers/gpu_availability"];
type Keys = Responses["GET /v1/ssh_keys"];

const text = all.containers;
const words = text.form;
/** The API requires a script. */
const emptyScript = "#cloud-config\n";

export function RentForm({ onRented }: { onRented: () => void }): ReactNode {
  const offered = useGetAll<readonly [Params, Offers, Keys]>([
    "/v1/containers/params",
    "/v1/containers/gpu_availability",
    "/v1/ssh_keys",
  ]);
  return (
    <Loaded query={offered}>
      {([{ container_images: images }, { gpus }, keys]) =>
        images.length === 0 || gpus.length === 0 ? (
          <Empty>
            {text.none} {text.noneAdvice}
          </Empty>
        ) : (
          <Offer images={images} gpus={gpus} keys={keys} onRented={onRented} />
        )
      }
    </Loaded>
  );
}

interface OfferProps {
  readonly images: readonly string[];
  readonly gpus: Offers["gpus"];
  readonly keys: Keys;
  readonly onRented: () => void;
}

function Offer({ images, gpus, keys, onRented }: OfferProps): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const sorted = gpus.toSorted((a, b) => Number(b.available) - Number(a.available) || a.usd_per_hour - b.usd_per_hour);
  const [config, setConfig] = useState(sorted[0]?.gpu_config ?? "");
  const [image, setImage] = useState(images[0] ?? "");
  const rate = gpus.find((one) => one.gpu_config === config)?.usd_per_hour ?? 0;
  const rent = async ({ name, script = "" }: Fields) => {
    await api.call("POST", "/v1/containers", {
      name,
      gpu_config: config,
      container_image: image,
      cloud_init_user_data: script.trim() === "" ? emptyScript : script,
    });
    await refresh("/v1/containers");
    onRented();
  };
  return (
    <Form act={words.submit} done={words.done} disabled={keys.length === 0} onSend={rent}>
      <TextInput label={words.name} name="name" maxLength={64} required data-autofocus />
      <Radio.Group label={words.gpus} value={config} onChange={setConfig}>
        <Stack gap="xs" mt="xs" mah={260} style={{ overflowY: "auto" }}>
          {sorted.map((one) => (
            <Radio
              key={one.gpu_config}
              value={one.gpu_config}
              label={`${one.gpu_config.replace("x", " × ")} · ${all.perHour(usd(one.usd_per_hour))}`}
              description={one.available ? `● ${words.available}` : `○ ${words.unavailable}`}
            />
          ))}
        </Stack>
      </Radio.Group>
      <Select
        label={words.image}
        data={images}
        value={image}
        onChange={(value) => setImage(value ?? "")}
        allowDeselect={false}
      />
      <Textarea
        label={words.script}
        description={words.scriptHint}
        name="script"
        maxLength={32_000}
        autosize
        minRows={2}
        maxRows={10}
        placeholder="#!/bin/sh"
        spellCheck={false}
      />
      <Text size="sm">
        <span aria-hidden="true">{keys.length > 0 ? "●" : "✕"}</span>{" "}
        {keys.length > 0 ? words.keysOf(keys.map(({ name }) => name).join(", ")) : words.noKeys}
      </Text>
      <Text size="sm">{words.cost(all.perHour(usd(rate)), all.perMonth(usd(Math.round(rate * hoursPerMonth))))}</Text>
      <Command value={`stoker container create NAME --gpus ${config} --image ${image}`} />
    </Form>
  );
}
