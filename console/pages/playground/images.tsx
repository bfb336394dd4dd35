import { Button, Group, Image, Loader, NumberInput, Select, SimpleGrid, Stack, Textarea } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/playground.ts";
import { Empty } from "../../ui/page.tsx";
import { Bench } from "./bench.tsx";
import { useCall } from "./call-model.ts";
import { CallCode } from "./code-dialog.tsx";
import { RunFigures } from "./figures.tsx";
import { chosenOf, ModelSelect } from "./model-select.tsx";
import type { ModeProps } from "./playground.tsx";

const words = text.images;
const sizes = ["256x256", "512x512", "768x768", "1024x1024", "1024x768", "768x1024"];
/** The API's own limit. */
const maxImages = 4;

interface Made {
  readonly prompt: string;
  /** data: URLs. */
  readonly urls: readonly string[];
}

export function Images({ models }: ModeProps): ReactNode {
  const [wanted, setModel] = useFilter("model");
  const chosen = chosenOf(models, wanted);
  const model = chosen.model_name;
  const { default_width: width = 512, default_height: height = 512 } = chosen.pricing;
  const [prompt, setPrompt] = useState<string>(words.example);
  const [size, setSize] = useState("");
  const [count, setCount] = useState(1);
  const call = useCall<Made>();
  const own = `${width}x${height}`;
  const body = { prompt, n: count, size: size || own, response_format: "b64_json" };
  const run = () =>
    call.start(model, "/v1/images/generations", { model, ...body }, async (response) => {
      const { data } = (await response.json()) as { readonly data: readonly { readonly b64_json?: string }[] };
      return { prompt, urls: data.map(({ b64_json: image = "" }) => `data:${typeOf(image)};base64,${image}`) };
    });
  const { done } = call;
  return (
    <Bench
      title={text.modes.images}
      run={words.run}
      isBusy={call.isBusy}
      error={call.error}
      onRun={run}
      onStop={call.stop}
      code={<CallCode model={model} task="text-to-image" body={body} />}
      fields={
        <>
          <ModelSelect models={models} value={model} onChange={setModel} />
          <Textarea
            label={words.prompt}
            autosize
            minRows={3}
            maxRows={10}
            required
            value={prompt}
            onChange={(event) => setPrompt(event.currentTarget.value)}
          />
          <Group grow>
            <Select
              label={words.size}
              data={[...new Set([own, ...sizes])]}
              value={size || own}
              allowDeselect={false}
              onChange={(value) => setSize(value ?? "")}
            />
            <NumberInput
              label={words.count}
              min={1}
              max={maxImages}
              value={count}
              onChange={(value) => setCount(Number(value) || 1)}
            />
          </Group>
        </>
      }
    >
      {call.isBusy && <Loader type="dots" role="status" aria-label={words.working} />}
      {!done && !call.isBusy && <Empty>{words.empty}</Empty>}
      {done && (
        <>
          <SimpleGrid cols={done.result.urls.length > 1 ? 2 : 1} spacing="sm">
            {done.result.urls.map((url, at) => (
              <Stack key={url} gap={4}>
                <Image src={url} alt={words.alt(done.result.prompt, at + 1)} radius="sm" />
                <Button
                  component="a"
                  href={url}
                  download={`image-${at + 1}.${url.startsWith("data:image/jpeg") ? "jpg" : "png"}`}
                  size="compact-sm"
                  variant="default"
                  leftSection={<IconDownload size={14} />}
                >
                  {words.download(at + 1)}
                </Button>
              </Stack>
            ))}
          </SimpleGrid>
          <RunFigures requestId={done.requestId} totalMs={done.totalMs} />
        </>
      )}
    </Bench>
  );
}

const typeOf = (base64: string): string =>
  base64.startsWith("/9j/") ? "image/jpeg" : base64.startsWith("UklGR") ? "image/webp" : "image/png";
