// npm rsmq as a process that takes calls as JSON lines and answers each with one: `node rsmq_node.mjs PORT`.
// The package is found under RSMQ_HOME. Answers have the same shape as those of rsmq_python.py.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.env.RSMQ_HOME}/package.json`);
const RedisSMQ = require("rsmq");
const rsmq = new RedisSMQ({ host: "127.0.0.1", port: Number(process.argv[2]), ns: "rsmq" });

const told = (message) =>
  message.id ? { id: message.id, body: message.message, receives: message.rc, first: message.fr } : null;

const verbs = {
  create: ({ queue, ...wanted }) => rsmq.createQueueAsync({ qname: queue, ...wanted }),
  drop: ({ queue }) => rsmq.deleteQueueAsync({ qname: queue }),
  names: async () => (await rsmq.listQueuesAsync()).sort(),
  send: async ({ queue, bodies, ...wanted }) => {
    const ids = [];
    for (const message of bodies) ids.push(await rsmq.sendMessageAsync({ qname: queue, message, ...wanted }));
    return ids;
  },
  receive: async ({ queue, count, ...wanted }) => {
    const messages = [];
    for (let n = 0; n < count; n++) {
      const message = told(await rsmq.receiveMessageAsync({ qname: queue, ...wanted }));
      if (!message) break;
      messages.push(message);
    }
    return messages;
  },
  pop: async ({ queue }) => told(await rsmq.popMessageAsync({ qname: queue })),
  hide: async ({ queue, message_id: id, vt }) =>
    (await rsmq.changeMessageVisibilityAsync({ qname: queue, id, vt })) === 1,
  delete: async ({ queue, ids }) => {
    const gone = [];
    for (const id of ids) gone.push((await rsmq.deleteMessageAsync({ qname: queue, id })) === 1);
    return gone;
  },
  stats: ({ queue }) => rsmq.getQueueAttributesAsync({ qname: queue }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { verb, ...words } = JSON.parse(line);
  try {
    console.log(JSON.stringify({ result: (await verbs[verb](words)) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: `${error.name}: ${error.message}` }));
  }
}
process.exit(0);
