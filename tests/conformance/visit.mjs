// One visit of the official JavaScript client: connect, list, make the calls it is told to, answer what it is asked.
//
//   node visit.mjs < {"url": …, "headers": {…}, "calls": [[name, arguments], …], "answers": {…}, "roots": […]}
//
// prints what it saw as one JSON object. The Python clients of test_clients.py report in the same shape.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { text } from "node:stream/consumers";

const plan = JSON.parse(await text(process.stdin));
const client = new Client(
  { name: "visitor", version: "1" },
  { capabilities: { sampling: {}, elicitation: {}, roots: {} } },
);
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => ({
  action: "accept",
  content: Object.fromEntries(Object.keys(params.requestedSchema.properties).map((name) => [name, plan.answers[name]])),
}));
client.setRequestHandler(CreateMessageRequestSchema, async ({ params }) => ({
  role: "assistant",
  content: { type: "text", text: plan.answers[params.messages[0].content.text] },
  model: "none",
}));
client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: plan.roots.map((uri) => ({ uri })) }));

const transport = new StreamableHTTPClientTransport(new URL(plan.url), { requestInit: { headers: plan.headers } });
await client.connect(transport);
const { tools } = await client.listTools();
const calls = [];
for (const [name, args] of plan.calls) {
  const progress = [];
  const onprogress = ({ progress: done, total }) => progress.push([done, total]);
  const result = await client.callTool({ name, arguments: args }, undefined, { onprogress });
  const said = result.content.filter(({ type }) => type === "text").map((part) => part.text);
  calls.push({ said, isError: result.isError ?? false, progress });
}
console.log(JSON.stringify({ version: transport.protocolVersion, tools: tools.map(({ name }) => name), calls }));
await client.close();
