-- A stranger's mod: 5 ms of work in each server step, and land that nobody has seen, once a second.
local sink, since, distance = 0, 0, 0
minetest.register_globalstep(function(dtime)
	local start = minetest.get_us_time()
	local x = 1
	while minetest.get_us_time() - start < 5000 do
		for _ = 1, 2000 do x = (x * 16807) % 2147483647 end
	end
	sink = x
	since = since + dtime
	if since > 1 then
		since, distance = 0, distance + 200
		minetest.emerge_area({ x = distance, y = 0, z = 0 }, { x = distance + 79, y = 31, z = 79 })
	end
end)
-- The server's own count, each 20 s.
local steps, begun = 0, minetest.get_us_time()
minetest.register_globalstep(function()
	steps = steps + 1
	local seconds = (minetest.get_us_time() - begun) / 1e6
	if seconds >= 20 then
		print(("zoo: %d ticks in %.3f s, %.3f Hz"):format(steps, seconds, steps / seconds))
		steps, begun = 0, minetest.get_us_time()
	end
end)
